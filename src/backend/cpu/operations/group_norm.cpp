// SPDX-License-Identifier: BSD-3-Clause
// Group norm (Wu and He, 2018) fused with the addition and the ReLU that follow it. As batch norm
// (batch_norm.cpp), but the statistics are those of each image and group of channels. Each thread
// computes all passes over an image, whose maps then stay in its cache.

#include "lockstep/graph/operations/group_norm.hpp"

#include <omp.h>

#include <cmath>

#include "../kernels/channel_sums.hpp"
#include "norm_operation.hpp"

namespace lockstep::backend::cpu {

namespace {

/// Statistics of one image and group.
struct Moments {
  double mean = 0;
  double inverse_deviation = 0;
};

/// Values per channel of the image that a thread computes, and its sums over its images.
struct Scratch {
  Scratch(const FeatureMap& image, RowTiling tiling)
      : sums(image, tiling, 1),
        coefficients(image, tiling),
        gamma_gradient(static_cast<std::size_t>(image.shape.channels)),
        beta_gradient(gamma_gradient.size()) {}

  ChannelSums sums;
  NormCoefficients coefficients;
  std::vector<double> gamma_gradient, beta_gradient;
};

template <class T>
class GroupNorm final : public NormOperation<T> {
 public:
  GroupNorm(const graph::GroupNorm& operation, const Context& context, const Step& step,
            Operands given)
      : NormOperation<T>(context, step, std::move(given)),
        map_(*this->operands().output),
        image_{1, map_.shape, map_.type, map_.layout},
        tiling_(tile_rows(image_)),
        groups_(static_cast<std::size_t>(operation.groups)),
        group_channels_(channels_ / groups_),
        values_(static_cast<double>(map_.shape.elements()) / static_cast<double>(groups_)),
        epsilon_(static_cast<double>(operation.epsilon)),
        scratch_(static_cast<std::size_t>(context.threads), Scratch(image_, tiling_)),
        moments_(static_cast<std::size_t>(map_.images) * groups_) {}

  void forward() override {
    for_each_image([&](std::int64_t image, Scratch& scratch) {
      compute_moments(image, scratch);
      normalise_image(image, scratch);
    });
  }

  /// Normalises with the moments of the last forward pass.
  void recompute() override {
    for_each_image([&](std::int64_t image, Scratch& scratch) { normalise_image(image, scratch); });
  }

  void backward() override {
    for (Scratch& scratch : scratch_) {
      std::ranges::fill(scratch.gamma_gradient, 0.0);
      std::ranges::fill(scratch.beta_gradient, 0.0);
    }
    for_each_image([&](std::int64_t image, Scratch& scratch) {
      set_coefficients(image, scratch);
      sum(image, scratch,
          [&](std::int64_t at, RowTiling rows, std::int64_t block, float* sums, float* products) {
            this->sum_gradients(at, rows, block, scratch.coefficients, sums, products);
          });
      add_parameter_gradients(image, scratch);
      if (!this->has_input_gradient()) return;
      set_gradient_coefficients(image, scratch);
      for_each_block(image, [&](std::int64_t at, RowTiling rows, std::int64_t block) {
        this->write_input_gradient(at, rows, block, scratch.coefficients);
      });
    });
    for (std::size_t c = 0; c < channels_; ++c) {
      double gamma = 0, beta = 0;
      for (const Scratch& scratch : scratch_) {
        gamma += scratch.gamma_gradient[c];
        beta += scratch.beta_gradient[c];
      }
      gamma_gradient_[c] = static_cast<float>(gamma);
      beta_gradient_[c] = static_cast<float>(beta);
    }
  }

 private:
  using NormOperation<T>::context_;
  using NormOperation<T>::channels_;
  using NormOperation<T>::gamma_;
  using NormOperation<T>::beta_;
  using NormOperation<T>::gamma_gradient_;
  using NormOperation<T>::beta_gradient_;

  template <class Work>
  void for_each_image(const Work& work) {
#pragma omp parallel for num_threads(context_.threads)
    for (std::int64_t image = 0; image < map_.images; ++image)
      work(image, scratch_[static_cast<std::size_t>(omp_get_thread_num())]);
  }

  void normalise_image(std::int64_t image, Scratch& scratch) {
    set_coefficients(image, scratch);
    for_each_block(image, [&](std::int64_t at, RowTiling rows, std::int64_t block) {
      this->normalise_rows(at, rows, block, scratch.coefficients);
    });
  }

  /// Returns the rows of an image in a block of channels; blocks of images contain rows of several.
  RowTiling rows_of(std::int64_t image) const {
    RowTiling rows = tiling_;
    rows.rows = rows_of_plane(tiling_, image_, 0);
    if (map_.images_per_block() > 1) rows.stride = map_.pixel_stride(map_.block_of(image));
    return rows;
  }

  /// Calls work(offset, rows, block) for each block of channels of an image.
  template <class Work>
  void for_each_block(std::int64_t image, const Work& work) const {
    const RowTiling rows = rows_of(image);
    for (std::int64_t block = 0; block < map_.blocks(); ++block)
      work(map_.offset(image, block), rows, block);
  }

  /// Computes two sums per channel of an image: `ChannelSums::run`, with offsets in the whole map.
  template <class Kernel>
  void sum(std::int64_t image, Scratch& scratch, const Kernel& kernel) const {
    const std::int64_t stride = rows_of(image).stride;
    scratch.sums.run(
        [&](std::int64_t at, RowTiling rows, std::int64_t block, float* first, float* second) {
          const std::int64_t row = (at - image_.plane_offset(0, block)) / tiling_.width;
          rows.stride = stride;
          kernel(map_.offset(image, block) + row * stride, rows, block, first, second);
        });
  }

  Moments& moments(std::int64_t image, std::size_t channel) {
    return moments_[static_cast<std::size_t>(image) * groups_ + channel / group_channels_];
  }

  /// Computes the sums of each channel about its first value, which avoids cancellation in the
  /// squares, and combines those of a group (Chan, Golub, LeVeque, 1979).
  void compute_moments(std::int64_t image, Scratch& scratch) {
    const T* const x = this->input();
    for (std::size_t c = 0; c < channels_; ++c)
      scratch.coefficients.center.set(static_cast<std::int64_t>(c), this->first_value(image, c));
    sum(image, scratch,
        [&](std::int64_t at, RowTiling rows, std::int64_t block, float* sums, float* squares) {
          accumulate(x + at, rows, scratch.coefficients.center.block(block), sums, squares);
        });
    const auto pixels = static_cast<double>(map_.shape.pixels());
    const auto mean_of = [&](std::size_t c) {
      return static_cast<double>(this->first_value(image, c)) + scratch.sums.first[c] / pixels;
    };
    for (std::size_t first = 0; first < channels_; first += group_channels_) {
      double mean = 0, squares = 0;
      for (std::size_t c = first; c < first + group_channels_; ++c)
        mean += mean_of(c) / static_cast<double>(group_channels_);
      for (std::size_t c = first; c < first + group_channels_; ++c) {
        const double shifted = scratch.sums.first[c], difference = mean_of(c) - mean;
        squares += std::max(0.0, scratch.sums.second[c] - shifted * shifted / pixels) +
                   pixels * difference * difference;
      }
      moments(image, first) = {mean, 1 / std::sqrt(squares / values_ + epsilon_)};
    }
  }

  void set_coefficients(std::int64_t image, Scratch& scratch) {
    for (std::size_t c = 0; c < channels_; ++c) {
      const auto channel = static_cast<std::int64_t>(c);
      const auto [mean, inverse] = moments(image, c);
      const double scale = static_cast<double>(gamma_[c]) * inverse;
      scratch.coefficients.center.set(channel, static_cast<float>(mean));
      scratch.coefficients.scale.set(channel, static_cast<float>(scale));
      scratch.coefficients.offset.set(
          channel, static_cast<float>(static_cast<double>(beta_[c]) - mean * scale));
    }
  }

  /// Adds, from the sums of g and g (x - mean), the gradients of gamma and beta.
  void add_parameter_gradients(std::int64_t image, Scratch& scratch) {
    for (std::size_t c = 0; c < channels_; ++c) {
      scratch.gamma_gradient[c] += scratch.sums.second[c] * moments(image, c).inverse_deviation;
      scratch.beta_gradient[c] += scratch.sums.first[c];
    }
  }

  /// Computes the coefficients of dx = (gamma g - mean(gamma g) - xhat mean(gamma g xhat)) / std,
  /// where the means are over the group.
  void set_gradient_coefficients(std::int64_t image, Scratch& scratch) {
    for (std::size_t first = 0; first < channels_; first += group_channels_) {
      const auto [mean, inverse] = moments(image, first);
      double sum = 0, product = 0;
      for (std::size_t c = first; c < first + group_channels_; ++c) {
        sum += static_cast<double>(gamma_[c]) * scratch.sums.first[c];
        product += static_cast<double>(gamma_[c]) * scratch.sums.second[c] * inverse;
      }
      const double slope = -inverse * inverse * product / values_;
      for (std::size_t c = first; c < first + group_channels_; ++c) {
        const auto channel = static_cast<std::int64_t>(c);
        scratch.coefficients.gradient_factor.set(
            channel, static_cast<float>(static_cast<double>(gamma_[c]) * inverse));
        scratch.coefficients.input_factor.set(channel, static_cast<float>(slope));
        scratch.coefficients.constant.set(
            channel, static_cast<float>(-inverse * sum / values_ - slope * mean));
      }
    }
  }

  const FeatureMap& map_;  ///< shape and layout of all maps
  FeatureMap image_;       ///< a map of one image
  RowTiling tiling_;
  std::size_t groups_, group_channels_;
  double values_;  ///< per group
  double epsilon_;
  std::vector<Scratch> scratch_;  ///< by thread
  std::vector<Moments> moments_;  ///< (image, group)
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::GroupNorm& operation, const Context& context,
                                          const Step& step, Operands operands) {
  return make_for<GroupNorm>(operands.output->type, operation, context, step, std::move(operands));
}

}  // namespace lockstep::backend::cpu
