// Implementations of the forward pass of batch norm. Candidates in training:
// - A single cuDNN batch-norm node, if cuDNN has an engine for it. The engine can keep the feature
//   map on the chip between computing the statistics and normalising.
// - Two passes, first the statistics and then y = scale x + offset, either with the kernels of this
//   program (kernels/batch_norm.hpp) or, if cuDNN has no engine for the single node, with cuDNN
//   graphs of pointwise and reduction operations.
// If the preceding convolution also computes the sums of its output, there is one candidate: the
// statistics are computed from these sums, and y by this program's kernel or by the following
// convolution.
// The program's own kernels are deterministic and can sum over all replicas. In inference, the
// running statistics are applied by the program's own kernel.

#include <algorithm>
#include <optional>
#include <utility>

#include "../device/alignment.hpp"
#include "../kernels/batch_norm.hpp"
#include "../launch.hpp"
#include "lockstep/core/cuda.hpp"
#include "passes.hpp"

namespace lockstep::backend::cuda {

namespace {

namespace tensor = batch_norm_tensor;

class OneNodeForward final : public BatchNormForward {
 public:
  OneNodeForward(std::shared_ptr<const DnnGraph> graph, std::int64_t channels)
      : graph_(std::move(graph)), channels_(channels) {}

  std::string kind() const override { return "one node"; }
  std::string name() const override { return kind() + ", " + graph_->engine(); }
  bool leaves_coefficients() const override { return false; }
  std::size_t workspace_bytes() const override { return graph_->workspace_bytes(); }

  void bind(const BatchNormMemory& memory) override {
    workspace_ = memory.workspace;
    const BatchNormSaved saved(memory.saved, channels_);
    bindings_ = {{tensor::x, memory.x},
                 {tensor::scale, memory.gamma},
                 {tensor::bias, memory.beta},
                 {tensor::running_mean, memory.running_mean},
                 {tensor::running_variance, memory.running_variance},
                 {tensor::y, memory.y},
                 {tensor::mean, saved.mean},
                 {tensor::inverse_deviation, saved.inverse_deviation},
                 {tensor::next_running_mean, memory.running_mean},
                 {tensor::next_running_variance, memory.running_variance}};
    if (memory.residual != nullptr) bindings_.push_back({tensor::residual, memory.residual});
  }

  void run() override { graph_->run(bindings_, workspace_); }

 private:
  std::shared_ptr<const DnnGraph> graph_;
  std::int64_t channels_;
  std::byte* workspace_ = nullptr;
  std::vector<Binding> bindings_;
};

/// Implementation of each half of the pass: a kernel of this program, a cuDNN graph, or an adjacent
/// convolution (`convolution`: the preceding one; `reader`: the following one).
enum class Statistics { ours, graph, convolution };
enum class Apply { ours, graph, reader };

/// cuDNN graphs for one or both halves of the pass; null for a half that is computed otherwise.
struct PlainGraphs {
  std::shared_ptr<const DnnGraph> sums, apply;
};

/// Two passes: first the statistics, then y = scale x + offset.
template <class T>
class TwoPassForward final : public BatchNormForward {
 public:
  TwoPassForward(const BatchNormSetting& setting, Statistics statistics, Apply apply,
                 PlainGraphs graphs)
      : setting_(setting),
        statistics_(statistics),
        apply_(apply),
        graphs_(std::move(graphs)),
        slabs_(kernels::slab_count<T>(setting.rows(), setting.channels())) {}

  std::string kind() const override {
    std::string text;
    switch (statistics_) {
      case Statistics::ours: text = "two passes"; break;
      case Statistics::graph: text = "two graphs"; break;
      case Statistics::convolution: text = "sums from the convolution"; break;
    }
    return apply_ == Apply::reader ? text + ", applied by the next convolution" : text;
  }
  std::string name() const override {
    std::string text = kind();
    for (const auto& graph : {graphs_.sums, graphs_.apply})
      if (graph != nullptr) text += ", " + graph->engine();
    return text;
  }

  /// Memory layout: the sums (partial sums of the kernels, or sums of a graph), then the workspace
  /// of the graphs.
  std::size_t workspace_bytes() const override {
    std::size_t workspace = 0;
    for (const auto& graph : {graphs_.sums, graphs_.apply})
      if (graph != nullptr) workspace = std::max(workspace, graph->workspace_bytes());
    return sums_bytes() + workspace;
  }

  void bind(const BatchNormMemory& memory) override {
    memory_ = memory;
    const BatchNormSaved saved(memory.saved, channels());
    totals_ = saved.totals;
    outcome_ = {
        {memory.gamma, memory.beta, saved.mean, saved.inverse_deviation, saved.scale, saved.offset},
        memory.running_mean,
        memory.running_variance,
        setting_.epsilon,
        setting_.momentum};
    const bool are_given = statistics_ == Statistics::convolution;
    sums_ = are_given ? memory.sums : reinterpret_cast<float*>(memory.workspace);
    squares_ = are_given ? memory.squares : sums_ + vector_stride(channels());
    sums_bindings_ = {{tensor::x, memory.x}, {tensor::sums, sums_}, {tensor::products, squares_}};
    apply_bindings_ = {{tensor::x, memory.x},
                       {tensor::scale, saved.scale},
                       {tensor::bias, saved.offset},
                       {tensor::y, memory.y}};
    if (memory.residual != nullptr) apply_bindings_.push_back({tensor::residual, memory.residual});
  }

  void run() override {
    if (!setting_.context->is_training())
      launch(stream(), kernels::BatchNormInferenceCoefficients{
                           outcome_.running_mean, outcome_.running_variance, outcome_.coefficients,
                           channels(), setting_.epsilon});
    else if (statistics_ == Statistics::ours)
      sum_ourselves();
    else
      take_sums();
    if (apply_ == Apply::graph) graphs_.apply->run(apply_bindings_, workspace());
    if (apply_ == Apply::ours) apply_ourselves();
  }

 private:
  std::int64_t channels() const { return setting_.channels(); }
  std::int64_t rows() const { return setting_.rows(); }
  cudaStream_t stream() const { return setting_.context->stream(); }
  const T* x() const { return reinterpret_cast<const T*>(memory_.x); }
  std::byte* workspace() const { return memory_.workspace + sums_bytes(); }

  std::size_t sums_bytes() const {
    std::int64_t floats = 0;
    if (statistics_ == Statistics::ours)
      floats = kernels::batch_norm_partial_size(slabs_, channels());
    if (statistics_ == Statistics::graph) floats = 2 * vector_stride(channels());
    return aligned(static_cast<std::size_t>(floats) * sizeof(float));
  }

  void sum_ourselves() {
    core::StatisticsAllReduce* const replicas = setting_.context->options.batch_norm_sum;
    launch(stream(), kernels::BatchNormSums<T>{x(), sums_, rows(), channels(), slabs_});
    // Sums can be added over replicas only if all replicas subtract the same value from x.
    const kernels::BatchNormShift<T> shift{x(),
                                           replicas != nullptr ? outcome_.running_mean : nullptr};
    const kernels::BatchNormTotals<T> totals{sums_, shift, totals_, rows(), channels(), slabs_};
    const kernels::BatchNormStatistics<T> statistics{totals_, shift, outcome_, channels()};
    if (replicas == nullptr) {
      launch(stream(), kernels::BatchNormTotalsAndStatistics<T>{totals, statistics});
      return;
    }
    launch(stream(), totals);
    replicas->sum({totals_, static_cast<std::size_t>(2 * channels() + 1)});
    launch(stream(), statistics);
  }

  void take_sums() {
    if (statistics_ == Statistics::graph) {
      core::check_cuda(cudaMemsetAsync(sums_, 0, sums_bytes(), stream()), "clearing sums");
      graphs_.sums->run(sums_bindings_, workspace());
    }
    launch(stream(),
           kernels::BatchNormStatisticsOfSums{
               sums_, squares_, outcome_, reinterpret_cast<kernels::Float16*>(memory_.half_scale),
               reinterpret_cast<kernels::Float16*>(memory_.half_offset), rows(), channels()});
  }

  void apply_ourselves() {
    launch(stream(),
           kernels::BatchNormApply<T>{
               x(), reinterpret_cast<const T*>(memory_.residual), reinterpret_cast<T*>(memory_.y),
               outcome_.coefficients.scale, outcome_.coefficients.offset, rows(), channels(),
               setting_.has_relu ? kernels::Activation::relu : kernels::Activation::none});
  }

  BatchNormSetting setting_;
  Statistics statistics_;
  Apply apply_;
  PlainGraphs graphs_;
  std::int64_t slabs_;
  BatchNormMemory memory_;
  kernels::BatchNormOutcome outcome_{};
  float* sums_ = nullptr;  ///< sums of x, or the partial sums of x and of its squares
  float* squares_ = nullptr;
  float* totals_ = nullptr;
  std::vector<Binding> sums_bindings_, apply_bindings_;
};

std::unique_ptr<BatchNormForward> two_passes(const BatchNormSetting& setting, Statistics statistics,
                                             Apply apply, PlainGraphs graphs = {}) {
  return make_for<TwoPassForward, BatchNormForward>(setting.context->element, setting, statistics,
                                                    apply, std::move(graphs));
}

/// Returns the operations that cuDNN can fuse after the batch norm; std::nullopt for an addition
/// without a ReLU, which it cannot fuse.
std::optional<BatchNormTail> tail_of(const BatchNormSetting& setting) {
  if (setting.has_residual && !setting.has_relu) return std::nullopt;
  if (setting.has_residual) return BatchNormTail::add_relu;
  return setting.has_relu ? BatchNormTail::relu : BatchNormTail::none;
}

}  // namespace

std::vector<std::unique_ptr<BatchNormForward>> forward_candidates(const BatchNormSetting& setting,
                                                                  SumsFrom sums) {
  const Context& context = *setting.context;
  std::vector<std::unique_ptr<BatchNormForward>> candidates;
  if (sums == SumsFrom::convolution) {
    const Apply apply = setting.output_is_written ? Apply::ours : Apply::reader;
    candidates.push_back(two_passes(setting, Statistics::convolution, apply));
    return candidates;
  }
  const auto tail = tail_of(setting);
  const bool can_use_cudnn = context.is_training() && may_use_cudnn(context);
  const core::Precision precision = context.options.precision;
  if (can_use_cudnn && tail) {
    const PlannedGraph one = batch_norm_forward(*context.planner, setting.shape, precision, *tail,
                                                setting.epsilon, setting.momentum);
    if (one.graph != nullptr)
      candidates.push_back(std::make_unique<OneNodeForward>(one.graph, setting.channels()));
  }
  if (can_use_cudnn && tail && candidates.empty() && context.target->is_present()) {
    const PlannedGraph sum = batch_norm_sums(*context.planner, setting.shape, precision);
    const PlannedGraph apply = batch_norm_apply(*context.planner, setting.shape, precision, *tail);
    if (sum.graph != nullptr && apply.graph != nullptr)
      candidates.push_back(
          two_passes(setting, Statistics::graph, Apply::graph, {sum.graph, apply.graph}));
  }
  candidates.push_back(two_passes(setting, Statistics::ours, Apply::ours));
  return candidates;
}

}  // namespace lockstep::backend::cuda
