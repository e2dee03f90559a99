// SPDX-License-Identifier: BSD-3-Clause
// Implementations of the backward pass of batch norm, fused with the backward pass of the ReLU and
// of the residual addition that follow it. Candidates: a single cuDNN batch-norm node; or two
// passes of this program's kernels (kernels/batch_norm_gradient.hpp), first the sums and then dx.
// The program's own kernels are deterministic and can sum over all replicas.

#include <utility>

#include "../kernels/batch_norm_gradient.hpp"
#include "../launch.hpp"
#include "passes.hpp"

namespace lockstep::backend::cuda {

namespace {

namespace tensor = batch_norm_tensor;

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
class TwoPassBackward final : public BatchNormPass {
 public:
  TwoPassBackward(const BatchNormSetting& setting, kernels::ReluMask mask)
      : setting_(setting),
        mask_(mask),
        slabs_(kernels::slab_count<T>(setting.rows(), setting.channels())) {}

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
  std::int64_t channels() const { return setting_.channels(); }
  std::int64_t rows() const { return setting_.rows(); }
  std::int64_t stride() const { return vector_stride(channels()); }
  const Context& context() const { return *setting_.context; }
  cudaStream_t stream() const { return context().stream(); }
  std::int64_t partial_floats() const {
    return kernels::batch_norm_partial_size(slabs_, channels());
  }

  BatchNormSetting setting_;
  kernels::ReluMask mask_;
  std::int64_t slabs_;
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
