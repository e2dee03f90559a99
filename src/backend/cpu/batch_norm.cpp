// Batch norm fused with the addition and the ReLU that follow it, with as few passes over the maps
// as possible:
//   forward:  1. sums of x, unless the convolution before has computed them;
//             2. y = relu(scale x + offset [+ residual])
//   backward: 1. g = mask(dy), sums of g and g (x - mean);  2. dx = a g + b x + c
// with scale = gamma / std, offset = beta - mean scale (Ioffe and Szegedy, 2015). Without a
// residual, the mask of the ReLU is recomputed from x, so that y is not read. With a residual, g is
// the gradient of the residual and is stored. In inference, the running statistics replace those of
// the batch, and pass 1 is omitted.

#include <algorithm>
#include <cmath>

#include "channel_sums.hpp"
#include "division.hpp"
#include "fused_statistics.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/graph/operations/batch_norm.hpp"
#include "operations.hpp"
#include "row_kernels.hpp"

namespace lockstep::backend::cpu {

using core::BFloat16;
using core::DataType;

namespace {

template <class T>
class BatchNorm : public Operation {
 public:
  BatchNorm(const graph::BatchNorm& operation, const Context& context, const Step& step,
            Operands given)
      : Operation(std::move(given)),
        context_(context),
        id_(step.node),
        node_(context.graph->node(step.node)),
        operation_(operation),
        fused_(context.statistics != nullptr ? context.statistics->of(step.node) : nullptr),
        activation_(step.with_relu ? Activation::relu : Activation::none),
        tiling_(tile_rows(*operands().output)),
        channels_(static_cast<std::size_t>(operands().output->shape.channels)),
        sums_(*operands().output, tiling_, context.threads),
        shift_(*operands().output, tiling_),
        scale_(*operands().output, tiling_),
        offset_(*operands().output, tiling_),
        center_(*operands().output, tiling_),
        a_(*operands().output, tiling_),
        b_(*operands().output, tiling_),
        c_(*operands().output, tiling_),
        mean_(channels_),
        inverse_deviation_(channels_),
        exchange_(2 * channels_ + 1) {}

  std::vector<OperationChoice> choices() const override {
    if (!has_fused_statistics()) return {};
    return {{.node = id_,
             .phase = "forward",
             .implementation = "statistics by the convolution",
             .maps = has_residual() ? 3.0 : 2.0}};
  }

  BackwardNeeds backward_needs() const override {
    return {.inputs = true, .output = has_residual() && activation_ == Activation::relu};
  }
  std::size_t output_gradients_taken() const override { return 2; }

  void bind(const MemoryBinding& binding) override {
    const auto& parameters = context_.graph->parameters();
    const auto& statistics = context_.graph->statistics();
    const auto parameter = [&](const core::Buffer& flat, std::size_t i) {
      return flat.as<float>().subspan(parameters[node_.parameters[i]].offset, channels_);
    };
    const auto statistic = [&](std::size_t i) {
      return binding.state->statistics.as<float>().subspan(statistics[node_.statistics[i]].offset,
                                                           channels_);
    };
    gamma_ = parameter(binding.state->parameters, 0);
    beta_ = parameter(binding.state->parameters, 1);
    if (context_.options.mode == Mode::training) {
      gamma_gradient_ = parameter(binding.state->gradients, 0);
      beta_gradient_ = parameter(binding.state->gradients, 1);
    }
    running_mean_ = statistic(0);
    running_variance_ = statistic(1);
  }

  void forward() override {
    if (context_.options.mode == Mode::training) {
      batch_statistics();
    } else {
      use_statistics(running_mean_, running_variance_);
    }
    const FeatureMap& map = *operands().output;
    const T* const x = operands().inputs[0]->template as<T>();
    const T* const residual = has_residual() ? operands().inputs[1]->template as<T>() : nullptr;
    T* const y = map.as<T>();
    for_each_part([&](std::int64_t at, RowTiling part, std::int64_t block) {
      normalise({x + at, residual != nullptr ? residual + at : nullptr, y + at, activation_}, part,
                scale_.block(block), offset_.block(block));
    });
  }

  void backward() override {
    const bool keeps_masked = has_residual() && operands().input_gradients[1] != nullptr;
    T* const masked = keeps_masked ? operands().input_gradients[1]->template as<T>() : nullptr;
    sums_.run([&](std::int64_t at, RowTiling part, std::int64_t block, float* sum, float* product) {
      GradientRows<T> rows = incoming(at);
      rows.masked = keeps_masked ? masked + at : nullptr;
      gradient_sums(rows, part, scale_.block(block), offset_.block(block), center_.block(block),
                    sum, product);
    });
    gradient_coefficients();
    if (operands().input_gradients[0] == nullptr) return;
    T* const dx = operands().input_gradients[0]->template as<T>();
    for_each_part([&](std::int64_t at, RowTiling part, std::int64_t block) {
      GradientRows<T> rows = incoming(at);
      if (keeps_masked) rows = {.dy = masked + at, .x = rows.x};
      input_gradient(rows, dx + at, part, scale_.block(block), offset_.block(block),
                     {a_.block(block), b_.block(block), c_.block(block)});
    });
  }

 private:
  bool has_residual() const { return operands().inputs.size() > 1; }
  bool has_fused_statistics() const { return fused_ != nullptr && fused_->is_computed; }

  /// Calls work(offset, tiling of the part, block) for each part of each plane.
  template <class Work>
  void for_each_part(Work&& work) const {
    const FeatureMap& map = *operands().output;
    const BlockTasks tasks(map.images, map.images_per_block(), context_.threads, tiling_.rows,
                           map.blocks());
#pragma omp parallel for num_threads(context_.threads)
    for (std::int64_t task = 0; task < tasks.count(); ++task) {
      const std::int64_t image_block = tasks.block(task);
      const Range rows = tasks.rows(task, rows_of_plane(tiling_, map, image_block));
      const Range blocks = tasks.columns(task, map.blocks());
      RowTiling part = tiling_;
      part.rows = rows.last - rows.first;
      for (std::int64_t block = blocks.first; block < blocks.last; ++block)
        work(map.plane_offset(image_block, block) + rows.first * tiling_.width, part, block);
    }
  }

  GradientRows<T> incoming(std::int64_t at) const {
    const auto& gradients = operands().output_gradients;
    GradientRows<T> rows{.dy = gradients[0]->template as<T>() + at,
                         .x = operands().inputs[0]->template as<T>() + at};
    if (gradients.size() > 1) rows.dy2 = gradients[1]->template as<T>() + at;
    if (activation_ == Activation::relu) {
      rows.mask = has_residual() ? Mask::output : Mask::affine;
      rows.y = operands().output->template as<T>() + at;
    }
    return rows;
  }

  /// Computes mean and variance of the batch (of the batches of all replicas if batch norm is
  /// synchronised) and updates the running statistics.
  void batch_statistics() {
    const FeatureMap& map = *operands().inputs[0];
    const T* const x = map.as<T>();
    // The first pixel of the first image is close enough to the mean to avoid cancellation in the
    // squares.
    const auto shift = [&](std::size_t c) {
      return has_fused_statistics() ? 0.0F : first_value(map, x, c);
    };
    if (has_fused_statistics()) {
      std::ranges::copy(fused_->sum, sums_.first.begin());
      std::ranges::copy(fused_->square, sums_.second.begin());
    } else {
      for (std::size_t c = 0; c < channels_; ++c)
        shift_.set(static_cast<std::int64_t>(c), shift(c));
      sums_.run([&](std::int64_t at, RowTiling part, std::int64_t block, float* sum,
                    float* square) { accumulate(x + at, part, shift_.block(block), sum, square); });
    }
    const double local = static_cast<double>(map.images * map.shape.pixels());
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

  static float first_value(const FeatureMap& map, const T* x, std::size_t channel) {
    const T value = x[map.index(0, static_cast<std::int64_t>(channel), 0)];
    if constexpr (std::is_same_v<T, float>) {
      return value;
    } else {
      return core::to_float(value);
    }
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
      scale_.set(channel, scale);
      offset_.set(channel, beta_[c] - mean_[c] * scale);
      center_.set(channel, mean_[c]);
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
      a_.set(channel, static_cast<float>(scale));
      b_.set(channel, static_cast<float>(slope));
      c_.set(channel,
             static_cast<float>(-scale * sum[c] / count_ - slope * static_cast<double>(mean_[c])));
    }
  }

  const Context& context_;
  graph::NodeId id_;
  const graph::Node& node_;
  const graph::BatchNorm& operation_;
  FusedStatistics* fused_;  ///< of the convolution before this batch norm; null: there is none
  Activation activation_;
  RowTiling tiling_;
  std::size_t channels_;
  ChannelSums sums_;
  TiledCoefficients shift_, scale_, offset_, center_, a_, b_, c_;
  std::vector<float> mean_, inverse_deviation_, exchange_;
  double count_ = 0;  ///< values per channel in the statistics, over all replicas
  std::span<float> gamma_, beta_, gamma_gradient_, beta_gradient_, running_mean_, running_variance_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::BatchNorm& operation, const Context& context,
                                          const Step& step, Operands operands) {
  if (operands.output->type == DataType::bfloat16) {
    return std::make_unique<BatchNorm<BFloat16>>(operation, context, step, std::move(operands));
  }
  return std::make_unique<BatchNorm<float>>(operation, context, step, std::move(operands));
}

}  // namespace lockstep::backend::cpu
