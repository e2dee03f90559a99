// Implementations of the backward pass of batch norm, fused with the backward pass of the ReLU and
// of the residual addition that follow it. Candidates: a single cuDNN batch-norm node; or two
// passes, first the sums and then dx, either with the kernels of this program
// (kernels/batch_norm_gradient.hpp) or, if cuDNN has no engine for the single node, with cuDNN
// graphs of pointwise and reduction operations. The program's own kernels are deterministic and can
// sum over all replicas.

#include <algorithm>
#include <utility>

#include "../device/alignment.hpp"
#include "../kernels/batch_norm_gradient.hpp"
#include "../launch.hpp"
#include "lockstep/core/cuda.hpp"
#include "passes.hpp"

namespace lockstep::backend::cuda {

namespace {

namespace tensor = batch_norm_tensor;

std::vector<Binding> incoming_of(const BatchNormMemory& memory, ReluMask mask) {
  std::vector<Binding> bindings{{tensor::dy, memory.dy}, {tensor::x, memory.x}};
  if (memory.dy_more != nullptr) bindings.push_back({tensor::dy_more, memory.dy_more});
  if (mask == ReluMask::from_output) bindings.push_back({tensor::y, memory.y});
  return bindings;
}

class OneNodeBackward final : public BatchNormBackward {
 public:
  OneNodeBackward(std::shared_ptr<const DnnGraph> graph, ReluMask mask, std::int64_t channels)
      : graph_(std::move(graph)), mask_(mask), channels_(channels) {}

  std::string kind() const override {
    return mask_ == ReluMask::recomputed ? "one node, mask recomputed" : "one node";
  }
  std::string name() const override { return kind() + ", " + graph_->engine(); }
  bool reads_output() const override { return mask_ == ReluMask::from_output; }
  std::size_t workspace_bytes() const override { return graph_->workspace_bytes(); }

  void bind(const BatchNormMemory& memory) override {
    workspace_ = memory.workspace;
    const BatchNormSaved saved(memory.saved, channels_);
    bindings_ = incoming_of(memory, mask_);
    const std::vector<Binding> more{{tensor::scale, memory.gamma},
                                    {tensor::mean, saved.mean},
                                    {tensor::inverse_deviation, saved.inverse_deviation},
                                    {tensor::dx, memory.dx},
                                    {tensor::dscale, memory.gamma_gradient},
                                    {tensor::dbias, memory.beta_gradient}};
    bindings_.insert(bindings_.end(), more.begin(), more.end());
    if (mask_ == ReluMask::recomputed) bindings_.push_back({tensor::bias, memory.beta});
    if (memory.masked != nullptr) bindings_.push_back({tensor::masked_dy, memory.masked});
  }

  void run() override { graph_->run(bindings_, workspace_); }

 private:
  std::shared_ptr<const DnnGraph> graph_;
  ReluMask mask_;
  std::int64_t channels_;
  std::byte* workspace_ = nullptr;
  std::vector<Binding> bindings_;
};

/// Common part of the two-pass implementations: the vectors that the first pass computes for the
/// second.
class TwoPassBackward : public BatchNormBackward {
 public:
  explicit TwoPassBackward(const BatchNormSetting& setting) : setting_(setting) {}

 protected:
  std::int64_t channels() const { return setting_.channels(); }
  std::int64_t rows() const { return setting_.rows(); }
  const Context& context() const { return *setting_.context; }
  cudaStream_t stream() const { return context().stream(); }

  /// Returns the number of floats in the vectors: the totals (2 channels), a, b and c.
  std::int64_t vector_floats() const { return 5 * vector_stride(channels()); }

  void bind_vectors(const BatchNormMemory& memory, float* vectors) {
    const BatchNormSaved saved(memory.saved, channels());
    totals_ = vectors;
    const std::int64_t stride = vector_stride(channels());
    float* const a = vectors + 2 * stride;
    coefficients_ = {
        totals_,
        context().options.batch_norm_sum != nullptr ? saved.totals + 2 * channels() : nullptr,
        rows(),
        memory.gamma,
        saved.mean,
        saved.inverse_deviation,
        a,
        a + stride,
        a + 2 * stride,
        channels()};
  }

  BatchNormSetting setting_;
  float* totals_ = nullptr;
  kernels::BatchNormGradientCoefficients coefficients_{};
};

template <class T>
class OwnBackward final : public TwoPassBackward {
 public:
  OwnBackward(const BatchNormSetting& setting, kernels::ReluMask mask)
      : TwoPassBackward(setting),
        mask_(mask),
        slabs_(kernels::slab_count<T>(setting.rows(), setting.channels())) {}

  std::string kind() const override { return "two passes"; }
  std::string name() const override { return kind(); }
  bool reads_output() const override { return mask_ == kernels::ReluMask::output; }
  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(partial_floats() + vector_floats()) * sizeof(float);
  }

  void bind(const BatchNormMemory& memory) override {
    const BatchNormSaved saved(memory.saved, channels());
    partial_ = reinterpret_cast<float*>(memory.workspace);
    bind_vectors(memory, partial_ + partial_floats());
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
                                                       rows(), channels(), slabs_});
    const kernels::BatchNormGradientTotals sums{partial_,        totals_,    beta_gradient_,
                                                gamma_gradient_, channels(), slabs_};
    if (core::StatisticsAllReduce* const replicas = context().options.batch_norm_sum) {
      launch(stream(), sums);
      replicas->sum({totals_, static_cast<std::size_t>(2 * channels())});
      launch(stream(), coefficients_);
    } else {
      launch(stream(), kernels::BatchNormGradientTotalsAndCoefficients{sums, coefficients_});
    }
    if (!setting_.wants_input_gradient) return;
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
  std::int64_t partial_floats() const {
    return kernels::batch_norm_partial_size(slabs_, channels());
  }

  kernels::ReluMask mask_;
  std::int64_t slabs_;
  float* partial_ = nullptr;
  T* masked_ = nullptr;
  T* dx_ = nullptr;
  float* beta_gradient_ = nullptr;
  float* gamma_gradient_ = nullptr;
  kernels::GradientMaps<T> maps_{};
};

class GraphsBackward final : public TwoPassBackward {
 public:
  GraphsBackward(const BatchNormSetting& setting, ReluMask mask,
                 std::shared_ptr<const DnnGraph> sums, std::shared_ptr<const DnnGraph> gradient)
      : TwoPassBackward(setting),
        mask_(mask),
        sums_graph_(std::move(sums)),
        gradient_graph_(std::move(gradient)) {}

  std::string kind() const override { return "two graphs"; }
  std::string name() const override {
    return kind() + ", " + sums_graph_->engine() + ", " + gradient_graph_->engine();
  }
  bool reads_output() const override { return mask_ == ReluMask::from_output; }

  /// Memory layout: the sums (2 channels), the vectors, then the workspace of the two graphs.
  std::size_t workspace_bytes() const override {
    return vectors_bytes() +
           std::max(sums_graph_->workspace_bytes(), gradient_graph_->workspace_bytes());
  }

  void bind(const BatchNormMemory& memory) override {
    sums_ = reinterpret_cast<float*>(memory.workspace);
    float* const products = sums_ + vector_stride(channels());
    bind_vectors(memory, sums_ + 2 * vector_stride(channels()));
    workspace_ = memory.workspace + vectors_bytes();
    of_sums_ = {sums_,         products, memory.beta_gradient, memory.gamma_gradient,
                coefficients_, totals_};
    sums_bindings_ = incoming_of(memory, mask_);
    sums_bindings_.push_back({tensor::sums, sums_});
    sums_bindings_.push_back({tensor::products, products});
    if (memory.masked == nullptr) {
      gradient_bindings_ = incoming_of(memory, mask_);
    } else {
      sums_bindings_.push_back({tensor::masked_dy, memory.masked});
      gradient_bindings_ = {{tensor::dy, memory.masked}, {tensor::x, memory.x}};
    }
    gradient_bindings_.push_back({tensor::a, coefficients_.a});
    gradient_bindings_.push_back({tensor::b, coefficients_.b});
    gradient_bindings_.push_back({tensor::c, coefficients_.c});
    gradient_bindings_.push_back({tensor::dx, memory.dx});
  }

  void run() override {
    core::check_cuda(
        cudaMemsetAsync(sums_, 0,
                        static_cast<std::size_t>(2 * vector_stride(channels())) * sizeof(float),
                        stream()),
        "clearing sums");
    sums_graph_->run(sums_bindings_, workspace_);
    launch(stream(), of_sums_);
    gradient_graph_->run(gradient_bindings_, workspace_);
  }

 private:
  std::size_t vectors_bytes() const {
    return aligned(static_cast<std::size_t>(2 * vector_stride(channels()) + vector_floats()) *
                   sizeof(float));
  }

  ReluMask mask_;
  std::shared_ptr<const DnnGraph> sums_graph_, gradient_graph_;
  float* sums_ = nullptr;
  std::byte* workspace_ = nullptr;
  kernels::BatchNormGradientOfSums of_sums_{};
  std::vector<Binding> sums_bindings_, gradient_bindings_;
};

std::unique_ptr<BatchNormBackward> ours(const BatchNormSetting& setting, bool has_coefficients) {
  kernels::ReluMask mask = kernels::ReluMask::none;
  if (setting.has_relu)
    mask = has_coefficients && !setting.has_residual ? kernels::ReluMask::normalised
                                                     : kernels::ReluMask::output;
  return make_for<OwnBackward, BatchNormBackward>(setting.context->element, setting, mask);
}

/// Returns the ways to find the mask of the ReLU, the one that reads least memory first. cuDNN has
/// no engine that recomputes the output of a residual addition.
std::vector<ReluMask> relu_masks(const BatchNormSetting& setting) {
  if (!setting.has_relu) return {ReluMask::none};
  if (!setting.output_is_written) return {ReluMask::recomputed};
  if (setting.has_residual) return {ReluMask::from_output};
  return {ReluMask::recomputed, ReluMask::from_output};
}

}  // namespace

std::vector<std::unique_ptr<BatchNormBackward>> backward_candidates(
    const BatchNormSetting& setting, const BatchNormForward& forward) {
  const Context& context = *setting.context;
  const core::Precision precision = context.options.precision;
  const bool can_use_cudnn = may_use_cudnn(context);
  const bool is_known = setting.wants_input_gradient && (!setting.has_residual || setting.has_relu);
  const auto masks = relu_masks(setting);
  BatchNormGradientFlow flow{
      .incoming = setting.output_gradients > 1 ? IncomingGradients::two : IncomingGradients::one,
      .mask = masks.back(),
      .fork = setting.wants_residual_gradient ? GradientFork::written : GradientFork::none};
  std::vector<std::unique_ptr<BatchNormBackward>> candidates;
  if (can_use_cudnn && is_known) {
    for (const ReluMask mask : masks) {
      flow.mask = mask;
      const auto one = batch_norm_backward(*context.planner, setting.shape, precision, flow);
      if (one.graph != nullptr)
        candidates.push_back(
            std::make_unique<OneNodeBackward>(one.graph, mask, setting.channels()));
    }
  }
  const bool has_graphs = can_use_cudnn && is_known && flow.mask != ReluMask::recomputed;
  if (has_graphs && candidates.empty() && context.target->is_present()) {
    const PlannedGraph sums =
        batch_norm_gradient_sums(*context.planner, setting.shape, precision, flow);
    // If the gradient is forked, the first graph has stored the incoming gradient, summed and
    // masked by the ReLU. The second graph then reads it as a single gradient without a mask.
    const PlannedGraph gradient =
        batch_norm_input_gradient(*context.planner, setting.shape, precision,
                                  flow.fork == GradientFork::none ? flow : BatchNormGradientFlow{});
    if (sums.graph != nullptr && gradient.graph != nullptr)
      candidates.push_back(
          std::make_unique<GraphsBackward>(setting, flow.mask, sums.graph, gradient.graph));
  }
  candidates.push_back(ours(setting, forward.leaves_coefficients()));
  return candidates;
}

}  // namespace lockstep::backend::cuda
