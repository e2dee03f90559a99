// SPDX-License-Identifier: BSD-3-Clause
// Batch norm fused with the addition and the ReLU that follow it, with as few passes over the maps
// as possible:
//   forward:  1. sums of x, unless the convolution before has computed them;
//             2. y = relu(scale x + offset [+ residual])
//   backward: 1. g = mask(dy), sums of g and g (x - mean);
//             2. dx = gradient_factor g + input_factor x + constant
// with scale = gamma / std, offset = beta - mean scale (Ioffe and Szegedy, 2015). In inference, the
// running statistics replace those of the batch, and pass 1 is omitted.

#include <algorithm>
#include <cmath>

#include "../fused_statistics.hpp"
#include "../kernels/channel_sums.hpp"
#include "../kernels/division.hpp"
#include "lockstep/graph/operations/batch_norm.hpp"
#include "norm_operation.hpp"

namespace lockstep::backend::cpu {

namespace {

template <class T>
class BatchNorm final : public NormOperation<T> {
 public:
  BatchNorm(const graph::BatchNorm& operation, const Context& context, const Step& step,
            Operands given)
      : NormOperation<T>(context, step, std::move(given)),
        id_(step.node),
        operation_(operation),
        map_(*this->operands().output),
        tiling_(tile_rows(map_)),
        sums_(map_, tiling_, context.threads),
        mean_(channels_),
        inverse_deviation_(channels_),
        exchange_(2 * channels_ + 1) {
    const auto fused =
        std::ranges::find(context.statistics, step.node, &FusedStatistics::batch_norm);
    if (fused != context.statistics.end() && fused->is_computed) fused_ = &*fused;
  }

  std::vector<OperationChoice> choices() const override {
    if (fused_ == nullptr) return {};
    return {{.node = id_,
             .phase = "forward",
             .implementation = "statistics by the convolution",
             .maps = this->has_residual() ? 3.0 : 2.0}};
  }

  void bind(const MemoryBinding& binding) override {
    NormOperation<T>::bind(binding);
    const auto statistic = [&](std::size_t i) {
      const graph::Statistic& tensor = context_.graph->statistics()[node_.statistics[i]];
      return binding.state->statistics.as<float>().subspan(tensor.offset, channels_);
    };
    running_mean_ = statistic(0);
    running_variance_ = statistic(1);
  }

  void forward() override {
    if (this->is_training()) {
      batch_statistics();
    } else {
      use_statistics(running_mean_, running_variance_);
    }
    recompute();
  }

  /// Normalises with the coefficients of the last forward pass.
  void recompute() override {
    for_each_part([&](std::int64_t at, RowTiling part, std::int64_t block) {
      this->normalise_rows(at, part, block, coefficients_);
    });
  }

  void backward() override {
    sums_.run([&](std::int64_t at, RowTiling part, std::int64_t block, float* sum, float* product) {
      this->sum_gradients(at, part, block, coefficients_, sum, product);
    });
    gradient_coefficients();
    if (!this->has_input_gradient()) return;
    for_each_part([&](std::int64_t at, RowTiling part, std::int64_t block) {
      this->write_input_gradient(at, part, block, coefficients_);
    });
  }

 private:
  using NormOperation<T>::context_;
  using NormOperation<T>::node_;
  using NormOperation<T>::channels_;
  using NormOperation<T>::gamma_;
  using NormOperation<T>::beta_;
  using NormOperation<T>::gamma_gradient_;
  using NormOperation<T>::beta_gradient_;

  /// Calls work(offset, tiling of the part, block) for each part of each plane.
  template <class Work>
  void for_each_part(Work&& work) const {
    const BlockTasks tasks(map_.images, map_.images_per_block(), context_.threads, tiling_.rows,
                           map_.blocks());
#pragma omp parallel for num_threads(context_.threads)
    for (std::int64_t task = 0; task < tasks.count(); ++task) {
      const std::int64_t image_block = tasks.block(task);
      const Range rows = tasks.rows(task, rows_of_plane(tiling_, map_, image_block));
      const Range blocks = tasks.columns(task, map_.blocks());
      RowTiling part = tiling_;
      part.rows = rows.last - rows.first;
      for (std::int64_t block = blocks.first; block < blocks.last; ++block)
        work(map_.plane_offset(image_block, block) + rows.first * tiling_.width, part, block);
    }
  }

  /// Computes mean and variance of the batch (of the batches of all replicas if batch norm is
  /// synchronised) and updates the running statistics.
  void batch_statistics() {
    const T* const x = this->input();
    // The first pixel of the first image is close enough to the mean to avoid cancellation in the
    // squares.
    const auto shift = [&](std::size_t c) {
      return fused_ != nullptr ? 0.0F : this->first_value(0, c);
    };
    if (fused_ != nullptr) {
      std::ranges::copy(fused_->sum, sums_.first.begin());
      std::ranges::copy(fused_->square, sums_.second.begin());
    } else {
      for (std::size_t c = 0; c < channels_; ++c)
        coefficients_.center.set(static_cast<std::int64_t>(c), shift(c));
      sums_.run(
          [&](std::int64_t at, RowTiling part, std::int64_t block, float* sum, float* square) {
            accumulate(x + at, part, coefficients_.center.block(block), sum, square);
          });
    }
    const double local = static_cast<double>(map_.images * map_.shape.pixels());
    std::vector<double>& mean = sums_.first;
    std::vector<double>& squares = sums_.second;  // from here on about the mean
    for (std::size_t c = 0; c < channels_; ++c) {
      const double difference = mean[c] / local;
      squares[c] = std::max(0.0, squares[c] - local * difference * difference);
      mean[c] = static_cast<double>(shift(c)) + difference;
    }
    count_ = local;
    if (context_.options.batch_norm_sum != nullptr) combine_replicas(mean, squares, local);
    const float momentum = operation_.momentum;
    for (std::size_t c = 0; c < channels_; ++c) {
      const double variance = squares[c] / count_;
      const double unbiased = count_ > 1 ? squares[c] / (count_ - 1) : variance;
      mean_[c] = static_cast<float>(mean[c]);
      inverse_deviation_[c] =
          static_cast<float>(1 / std::sqrt(variance + static_cast<double>(operation_.epsilon)));
      running_mean_[c] += momentum * (mean_[c] - running_mean_[c]);
      running_variance_[c] += momentum * (static_cast<float>(unbiased) - running_variance_[c]);
    }
    set_coefficients();
  }

  /// Combines the statistics of all replicas (Chan, Golub, LeVeque, 1979): the squares about the
  /// common mean are the squares about the mean of each replica, plus count times the squared
  /// difference of the two means. Collective over the replicas.
  void combine_replicas(std::vector<double>& mean, std::vector<double>& squares, double local) {
    core::StatisticsAllReduce& replicas = *context_.options.batch_norm_sum;
    const std::span<float> sums(exchange_.data(), channels_ + 1);
    for (std::size_t c = 0; c < channels_; ++c) sums[c] = static_cast<float>(mean[c] * local);
    sums[channels_] = static_cast<float>(local);
    replicas.sum(sums);
    count_ = static_cast<double>(sums[channels_]);
    for (std::size_t c = 0; c < channels_; ++c) {
      const double common = static_cast<double>(sums[c]) / count_;
      squares[c] += local * (mean[c] - common) * (mean[c] - common);
      mean[c] = common;
    }
    for (std::size_t c = 0; c < channels_; ++c) sums[c] = static_cast<float>(squares[c]);
    replicas.sum(sums.first(channels_));
    for (std::size_t c = 0; c < channels_; ++c) squares[c] = static_cast<double>(sums[c]);
  }

  void use_statistics(std::span<const float> mean, std::span<const float> variance) {
    for (std::size_t c = 0; c < channels_; ++c) {
      mean_[c] = mean[c];
      inverse_deviation_[c] = 1 / std::sqrt(variance[c] + operation_.epsilon);
    }
    set_coefficients();
  }

  void set_coefficients() {
    for (std::size_t c = 0; c < channels_; ++c) {
      const auto channel = static_cast<std::int64_t>(c);
      const float scale = gamma_[c] * inverse_deviation_[c];
      coefficients_.scale.set(channel, scale);
      coefficients_.offset.set(channel, beta_[c] - mean_[c] * scale);
      coefficients_.center.set(channel, mean_[c]);
    }
  }

  /// Computes, from the sums of g and g (x - mean), the gradients of gamma and beta and the
  /// coefficients of dx = scale (g - mean(g) - xhat mean(g xhat)). The means are over the pixels of
  /// all replicas.
  void gradient_coefficients() {
    std::vector<double>& sum = sums_.first;
    std::vector<double>& product = sums_.second;
    for (std::size_t c = 0; c < channels_; ++c) {
      product[c] *= static_cast<double>(inverse_deviation_[c]);
      gamma_gradient_[c] = static_cast<float>(product[c]);
      beta_gradient_[c] = static_cast<float>(sum[c]);
    }
    if (context_.options.batch_norm_sum != nullptr) {
      const std::span<float> sums(exchange_.data(), 2 * channels_);
      std::ranges::copy(beta_gradient_, sums.begin());
      std::ranges::copy(gamma_gradient_, sums.begin() + static_cast<std::ptrdiff_t>(channels_));
      context_.options.batch_norm_sum->sum(sums);
      for (std::size_t c = 0; c < channels_; ++c) {
        sum[c] = static_cast<double>(sums[c]);
        product[c] = static_cast<double>(sums[channels_ + c]);
      }
    }
    for (std::size_t c = 0; c < channels_; ++c) {
      const auto channel = static_cast<std::int64_t>(c);
      const double inverse = static_cast<double>(inverse_deviation_[c]);
      const double scale = static_cast<double>(gamma_[c]) * inverse;
      const double slope = -scale * inverse * product[c] / count_;
      coefficients_.gradient_factor.set(channel, static_cast<float>(scale));
      coefficients_.input_factor.set(channel, static_cast<float>(slope));
      coefficients_.constant.set(
          channel,
          static_cast<float>(-scale * sum[c] / count_ - slope * static_cast<double>(mean_[c])));
    }
  }

  graph::NodeId id_;
  const graph::BatchNorm& operation_;
  const FusedStatistics* fused_ = nullptr;  ///< that the preceding convolution computes; or null
  const FeatureMap& map_;                   ///< shape and layout of all maps
  RowTiling tiling_;
  ChannelSums sums_;
  NormCoefficients coefficients_{map_, tiling_};
  std::vector<float> mean_, inverse_deviation_, exchange_;
  double count_ = 0;  ///< values per channel in the statistics, over all replicas
  std::span<float> running_mean_, running_variance_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::BatchNorm& operation, const Context& context,
                                          const Step& step, Operands operands) {
  return make_for<BatchNorm>(operands.output->type, operation, context, step, std::move(operands));
}

}  // namespace lockstep::backend::cpu
