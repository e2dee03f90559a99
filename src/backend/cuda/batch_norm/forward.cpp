// SPDX-License-Identifier: BSD-3-Clause
// Implementations of the forward pass of batch norm. Candidates in training:
// - A single cuDNN batch-norm node, if cuDNN has an engine for it. The engine can keep the feature
//   map on the chip between computing the statistics and normalising.
// - Two passes of this program's kernels (kernels/batch_norm.hpp): first the statistics, then y =
//   scale x + offset.
// If the preceding convolution also computes the sums of its output, there is one candidate: the
// statistics are computed from these sums, and y by this program's kernel.
// The program's own kernels are deterministic and can sum over all replicas. In inference, the
// running statistics are applied by the program's own kernel.

#include <optional>
#include <utility>

#include "../kernels/batch_norm.hpp"
#include "../launch.hpp"
#include "passes.hpp"

namespace lockstep::backend::cuda {

namespace {

namespace tensor = batch_norm_tensor;

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
class TwoPassForward final : public BatchNormPass {
 public:
  TwoPassForward(const BatchNormSetting& setting, SumsFrom sums)
      : setting_(setting),
        are_given_(sums == SumsFrom::convolution),
        slabs_(kernels::slab_count<T>(setting.rows(), setting.channels())) {}

  std::string name() const override {
    return are_given_ ? "sums from the convolution" : "two passes";
  }

  std::size_t workspace_bytes() const override {
    if (are_given_) return 0;
    return static_cast<std::size_t>(kernels::batch_norm_partial_size(slabs_, channels())) *
           sizeof(float);
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
  }

  void run() override {
    if (!setting_.context->is_training())
      launch(stream(), kernels::BatchNormInferenceCoefficients{
                           outcome_.running_mean, outcome_.running_variance, outcome_.coefficients,
                           channels(), setting_.epsilon});
    else if (are_given_)
      launch(stream(), kernels::BatchNormStatisticsOfSums{memory_.sums, memory_.squares, outcome_,
                                                          rows(), channels()});
    else
      compute_statistics();
    launch(stream(),
           kernels::BatchNormApply<T>{
               x(), reinterpret_cast<const T*>(memory_.residual), reinterpret_cast<T*>(memory_.y),
               outcome_.coefficients.scale, outcome_.coefficients.offset, rows(), channels(),
               setting_.has_relu ? kernels::Activation::relu : kernels::Activation::none});
  }

 private:
  std::int64_t channels() const { return setting_.channels(); }
  std::int64_t rows() const { return setting_.rows(); }
  cudaStream_t stream() const { return setting_.context->stream(); }
  const T* x() const { return reinterpret_cast<const T*>(memory_.x); }

  void compute_statistics() {
    core::StatisticsAllReduce* const replicas = setting_.context->options.batch_norm_sum;
    auto* const partial = reinterpret_cast<float*>(memory_.workspace);
    launch(stream(), kernels::BatchNormSums<T>{x(), partial, rows(), channels(), slabs_});
    // Sums can be added over replicas only if all replicas subtract the same value from x.
    const kernels::BatchNormShift<T> shift{x(),
                                           replicas != nullptr ? outcome_.running_mean : nullptr};
    const kernels::BatchNormTotals<T> totals{partial, shift, totals_, rows(), channels(), slabs_};
    const kernels::BatchNormStatistics<T> statistics{totals_, shift, outcome_, channels()};
    if (replicas == nullptr) {
      launch(stream(), kernels::BatchNormTotalsAndStatistics<T>{totals, statistics});
      return;
    }
    launch(stream(), totals);
    replicas->sum({totals_, static_cast<std::size_t>(2 * channels() + 1)});
    launch(stream(), statistics);
  }

  BatchNormSetting setting_;
  bool are_given_;  ///< whether the preceding convolution computes the sums
  std::int64_t slabs_;
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

}  // namespace lockstep::backend::cuda
