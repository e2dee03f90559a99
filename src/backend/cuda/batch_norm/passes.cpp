// SPDX-License-Identifier: BSD-3-Clause
// Implementations of the passes of batch norm. Candidates in training, for each pass:
// - A single cuDNN batch-norm node, if cuDNN has an engine for it. The engine can keep the feature
//   map on the chip between computing the statistics and normalising.
// - Two passes of this program's kernels: forward (kernels/batch_norm.hpp), first the statistics,
//   then y = scale x + offset; backward (kernels/batch_norm_gradient.hpp), first the sums, then dx.
// If the preceding convolution also computes the sums of its output, there is one candidate for the
// forward pass: the statistics are computed from these sums, and y by this program's kernel.
// The backward pass includes that of the ReLU and of the residual addition that follow.
// The program's own kernels are deterministic and can sum over all replicas. In inference, the
// running statistics are applied by the program's own kernel.

#include <optional>
#include <utility>

#include "../kernels/batch_norm_gradient.hpp"
#include "../launch.hpp"
#include "passes.hpp"

namespace lockstep::backend::cuda {

namespace {

namespace tensor = batch_norm_tensor;

/// A pass that is a single cuDNN batch-norm node.
class OneNodePass : public BatchNormPass {
 public:
  explicit OneNodePass(std::shared_ptr<const DnnGraph> graph, std::string kind = "one node")
      : graph_(std::move(graph)), kind_(std::move(kind)) {}

  std::string name() const override { return kind_ + ", " + graph_->engine(); }
  std::size_t workspace_bytes() const override { return graph_->workspace_bytes(); }
  bool leaves_coefficients() const override { return false; }
  void bind(const BatchNormMemory& memory) override {
    bindings_ = bindings(memory);
    workspace_ = memory.workspace;
  }
  void run() override { graph_->run(bindings_, workspace_); }

 private:
  virtual std::vector<Binding> bindings(const BatchNormMemory& memory) const = 0;

  std::shared_ptr<const DnnGraph> graph_;
  std::string kind_;
  std::vector<Binding> bindings_;
  std::byte* workspace_ = nullptr;
};

/// A pass by the kernels of this program.
class TwoPasses : public BatchNormPass {
 public:
  TwoPasses(const BatchNormSetting& setting, std::int64_t slabs)
      : setting_(setting), slabs_(slabs) {}

 protected:
  const BatchNormSetting& setting() const { return setting_; }
  std::int64_t channels() const { return setting_.channels(); }
  std::int64_t rows() const { return setting_.rows(); }
  std::int64_t slabs() const { return slabs_; }
  const Context& context() const { return *setting_.context; }
  cudaStream_t stream() const { return context().stream(); }
  std::int64_t partial_floats() const {
    return kernels::batch_norm_partial_size(slabs_, channels());
  }

 private:
  BatchNormSetting setting_;
  std::int64_t slabs_;
};

class OneNodeForward final : public OneNodePass {
 public:
  OneNodeForward(std::shared_ptr<const DnnGraph> graph, std::int64_t channels)
      : OneNodePass(std::move(graph)), channels_(channels) {}

 private:
  std::vector<Binding> bindings(const BatchNormMemory& memory) const override {
    const BatchNormSaved saved(memory.saved, channels_);
    std::vector<Binding> all{{tensor::x, memory.x},
                             {tensor::scale, memory.gamma},
                             {tensor::bias, memory.beta},
                             {tensor::running_mean, memory.running_mean},
                             {tensor::running_variance, memory.running_variance},
                             {tensor::y, memory.y},
                             {tensor::mean, saved.mean},
                             {tensor::inverse_deviation, saved.inverse_deviation},
                             {tensor::next_running_mean, memory.running_mean},
                             {tensor::next_running_variance, memory.running_variance}};
    if (memory.residual != nullptr) all.push_back({tensor::residual, memory.residual});
    return all;
  }

  std::int64_t channels_;
};

/// Two passes: first the statistics, then y = scale x + offset. `sums`: the operation that computes
/// the sums for the statistics.
template <class T>
class TwoPassForward final : public TwoPasses {
 public:
  TwoPassForward(const BatchNormSetting& setting, SumsFrom sums)
      : TwoPasses(setting, kernels::slab_count<T>(setting.rows(), setting.channels())),
        are_given_(sums == SumsFrom::convolution) {}

  std::string name() const override {
    return are_given_ ? "sums from the convolution" : "two passes";
  }

  std::size_t workspace_bytes() const override {
    if (are_given_) return 0;
    return static_cast<std::size_t>(partial_floats()) * sizeof(float);
  }

  void bind(const BatchNormMemory& memory) override {
    memory_ = memory;
    const BatchNormSaved saved(memory.saved, channels());
    totals_ = saved.totals;
    outcome_ = {
        {memory.gamma, memory.beta, saved.mean, saved.inverse_deviation, saved.scale, saved.offset},
        memory.running_mean,
        memory.running_variance,
        setting().epsilon,
        setting().momentum};
  }

  void run() override {
    if (!context().is_training())
      launch(stream(), kernels::BatchNormInferenceCoefficients{
                           outcome_.running_mean, outcome_.running_variance, outcome_.coefficients,
                           channels(), setting().epsilon});
    else if (are_given_)
      launch(stream(), kernels::BatchNormStatisticsOfSums{memory_.sums, memory_.squares, outcome_,
                                                          rows(), channels()});
    else
      compute_statistics();
    launch(stream(),
           kernels::BatchNormApply<T>{
               x(), reinterpret_cast<const T*>(memory_.residual), reinterpret_cast<T*>(memory_.y),
               outcome_.coefficients.scale, outcome_.coefficients.offset, rows(), channels(),
               setting().has_relu ? kernels::Activation::relu : kernels::Activation::none});
  }

 private:
  const T* x() const { return reinterpret_cast<const T*>(memory_.x); }

  void compute_statistics() {
    core::StatisticsAllReduce* const replicas = context().options.batch_norm_sum;
    auto* const partial = reinterpret_cast<float*>(memory_.workspace);
    launch(stream(), kernels::BatchNormSums<T>{x(), partial, rows(), channels(), slabs()});
    // Sums can be added over replicas only if all replicas subtract the same value from x.
    const kernels::BatchNormShift<T> shift{x(),
                                           replicas != nullptr ? outcome_.running_mean : nullptr};
    const kernels::BatchNormTotals<T> totals{partial, shift, totals_, rows(), channels(), slabs()};
    const kernels::BatchNormStatistics<T> statistics{totals_, shift, outcome_, channels()};
    if (replicas == nullptr) {
      launch(stream(), kernels::BatchNormTotalsAndStatistics<T>{totals, statistics});
      return;
    }
    launch(stream(), totals);
    replicas->sum({totals_, static_cast<std::size_t>(2 * channels() + 1)});
    launch(stream(), statistics);
  }

  bool are_given_;  ///< whether the preceding convolution computes the sums
  BatchNormMemory memory_;
  kernels::BatchNormOutcome outcome_{};
  float* totals_ = nullptr;
};

/// Returns the operations that cuDNN can fuse after the batch norm; std::nullopt for an addition
/// without a ReLU, which it cannot fuse.
std::optional<BatchNormTail> tail_of(const BatchNormSetting& setting) {
  if (setting.has_residual && !setting.has_relu) return std::nullopt;
  if (setting.has_residual) return BatchNormTail::add_relu;
  return setting.has_relu ? BatchNormTail::relu : BatchNormTail::none;
}

class OneNodeBackward final : public OneNodePass {
 public:
  OneNodeBackward(std::shared_ptr<const DnnGraph> graph, ReluMask mask, std::int64_t channels)
      : OneNodePass(std::move(graph),
                    mask == ReluMask::recomputed ? "one node, mask recomputed" : "one node"),
        mask_(mask),
        channels_(channels) {}

  bool reads_output() const override { return mask_ == ReluMask::from_output; }

 private:
  std::vector<Binding> bindings(const BatchNormMemory& memory) const override {
    const BatchNormSaved saved(memory.saved, channels_);
    std::vector<Binding> all{{tensor::dy, memory.dy},
                             {tensor::x, memory.x},
                             {tensor::scale, memory.gamma},
                             {tensor::mean, saved.mean},
                             {tensor::inverse_deviation, saved.inverse_deviation},
                             {tensor::dx, memory.dx},
                             {tensor::dscale, memory.gamma_gradient},
                             {tensor::dbias, memory.beta_gradient}};
    if (memory.dy_more != nullptr) all.push_back({tensor::dy_more, memory.dy_more});
    if (mask_ == ReluMask::from_output) all.push_back({tensor::y, memory.y});
    if (mask_ == ReluMask::recomputed) all.push_back({tensor::bias, memory.beta});
    if (memory.masked != nullptr) all.push_back({tensor::masked_dy, memory.masked});
    return all;
  }

  ReluMask mask_;
  std::int64_t channels_;
};

/// Two passes: first the sums, then dx.
template <class T>
class TwoPassBackward final : public TwoPasses {
 public:
  TwoPassBackward(const BatchNormSetting& setting, kernels::ReluMask mask)
      : TwoPasses(setting, kernels::slab_count<T>(setting.rows(), setting.channels())),
        mask_(mask) {}

  std::string name() const override { return "two passes"; }
  bool reads_output() const override { return mask_ == kernels::ReluMask::output; }

  /// Memory layout: the partial sums, the totals (2 channels), a, b and c.
  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(partial_floats() + 5 * stride()) * sizeof(float);
  }

  void bind(const BatchNormMemory& memory) override {
    const BatchNormSaved saved(memory.saved, channels());
    partial_ = reinterpret_cast<float*>(memory.workspace);
    totals_ = partial_ + partial_floats();
    float* const a = totals_ + 2 * stride();
    coefficients_ = {
        totals_,
        context().options.batch_norm_sum != nullptr ? saved.totals + 2 * channels() : nullptr,
        rows(),
        memory.gamma,
        saved.mean,
        saved.inverse_deviation,
        a,
        a + stride(),
        a + 2 * stride(),
        channels()};
    masked_ = reinterpret_cast<T*>(memory.masked);
    dx_ = reinterpret_cast<T*>(memory.dx);
    beta_gradient_ = memory.beta_gradient;
    gamma_gradient_ = memory.gamma_gradient;
    maps_ = {.x = reinterpret_cast<const T*>(memory.x),
             .dy = reinterpret_cast<const T*>(memory.dy),
             .dy2 = reinterpret_cast<const T*>(memory.dy_more),
             .y = reinterpret_cast<const T*>(memory.y),
             .mask = mask_,
             .scale = saved.scale,
             .offset = saved.offset};
  }

  void run() override {
    launch(stream(), kernels::BatchNormGradientSums<T>{maps_, masked_, coefficients_.mean,
                                                       coefficients_.inverse_deviation, partial_,
                                                       rows(), channels(), slabs()});
    const kernels::BatchNormGradientTotals sums{partial_,        totals_,    beta_gradient_,
                                                gamma_gradient_, channels(), slabs()};
    if (core::StatisticsAllReduce* const replicas = context().options.batch_norm_sum) {
      launch(stream(), sums);
      replicas->sum({totals_, static_cast<std::size_t>(2 * channels())});
      launch(stream(), coefficients_);
    } else {
      launch(stream(), kernels::BatchNormGradientTotalsAndCoefficients{sums, coefficients_});
    }
    if (!setting().wants_input_gradient) return;
    auto maps = maps_;
    if (masked_ != nullptr) {
      maps.dy = masked_;
      maps.dy2 = nullptr;
      maps.mask = kernels::ReluMask::none;
    }
    launch(stream(), kernels::BatchNormInputGradient<T>{maps, coefficients_.a, coefficients_.b,
                                                        coefficients_.c, dx_, rows(), channels()});
  }

 private:
  std::int64_t stride() const { return vector_stride(channels()); }

  kernels::ReluMask mask_;
  float* partial_ = nullptr;
  float* totals_ = nullptr;
  kernels::BatchNormGradientCoefficients coefficients_{};
  T* masked_ = nullptr;
  T* dx_ = nullptr;
  float* beta_gradient_ = nullptr;
  float* gamma_gradient_ = nullptr;
  kernels::GradientMaps<T> maps_{};
};

/// Returns the sources of the mask of the ReLU, the one that reads least memory first. cuDNN has
/// no engine that recomputes the output of a residual addition.
std::vector<ReluMask> relu_masks(const BatchNormSetting& setting) {
  if (!setting.has_relu) return {ReluMask::none};
  if (setting.has_residual) return {ReluMask::from_output};
  return {ReluMask::recomputed, ReluMask::from_output};
}

}  // namespace

BatchNormCandidates forward_candidates(const BatchNormSetting& setting, SumsFrom sums) {
  const Context& context = *setting.context;
  BatchNormCandidates candidates;
  const auto tail = tail_of(setting);
  if (sums == SumsFrom::batch_norm && context.is_training() && may_use_cudnn(context) && tail) {
    const PlannedGraph one =
        batch_norm_forward(*context.planner, setting.shape, context.options.precision, *tail,
                           setting.epsilon, setting.momentum);
    if (one.graph != nullptr)
      candidates.push_back(std::make_unique<OneNodeForward>(one.graph, setting.channels()));
  }
  candidates.push_back(make_for<TwoPassForward, BatchNormPass>(context.element, setting, sums));
  return candidates;
}

BatchNormCandidates backward_candidates(const BatchNormSetting& setting,
                                        const BatchNormPass& forward) {
  const Context& context = *setting.context;
  const bool is_known = setting.wants_input_gradient && (!setting.has_residual || setting.has_relu);
  BatchNormCandidates candidates;
  if (may_use_cudnn(context) && is_known) {
    for (const ReluMask mask : relu_masks(setting)) {
      const BatchNormGradientFlow flow{.has_two_gradients = setting.output_gradients > 1,
                                       .mask = mask,
                                       .writes_masked = setting.wants_residual_gradient};
      const auto one =
          batch_norm_backward(*context.planner, setting.shape, context.options.precision, flow);
      if (one.graph != nullptr)
        candidates.push_back(
            std::make_unique<OneNodeBackward>(one.graph, mask, setting.channels()));
    }
  }
  kernels::ReluMask mask = kernels::ReluMask::none;
  if (setting.has_relu)
    mask = forward.leaves_coefficients() && !setting.has_residual ? kernels::ReluMask::normalised
                                                                  : kernels::ReluMask::output;
  candidates.push_back(make_for<TwoPassBackward, BatchNormPass>(context.element, setting, mask));
  return candidates;
}

}  // namespace lockstep::backend::cuda
