// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../fusion.hpp"
#include "../context.hpp"
#include "../dnn/batch_norm_graphs.hpp"

// The forward and the backward pass of batch norm have several implementation candidates each: a
// single cuDNN batch-norm node, and the kernels of this program. The candidates that the device
// supports are created from the shapes alone, timed, and the fastest one is used for each pass.

namespace lockstep::backend::cuda {

/// Properties of a batch norm from which the implementations of its passes are created.
struct BatchNormSetting {
  const Context* context = nullptr;
  BatchNormShape shape;
  bool has_residual = false, has_relu = false;
  float epsilon = 0, momentum = 0;
  std::size_t output_gradients = 1;  ///< number of incoming gradients (1 or 2), which are added
  bool wants_input_gradient = true;  ///< whether dx is needed
  /// Whether the sum of the incoming gradients, masked by the ReLU, is needed.
  bool wants_residual_gradient = false;

  std::int64_t rows() const { return shape.images * shape.height * shape.width; }
  std::int64_t channels() const { return shape.channels; }
};

/// Device memory that the passes of one batch norm share. Feature maps are (rows, channels) in the
/// plan's data type, where rows are all pixels of all images; vectors are (channels).
struct BatchNormMemory {
  std::byte* x = nullptr;
  std::byte* residual = nullptr;  ///< null: none
  std::byte* y = nullptr;
  std::byte* dy = nullptr;
  std::byte* dy_more = nullptr;  ///< null: none
  std::byte* dx = nullptr;
  std::byte* masked = nullptr;  ///< gradient of the residual; null: not needed
  float* gamma = nullptr;
  float* beta = nullptr;
  float* gamma_gradient = nullptr;
  float* beta_gradient = nullptr;
  float* running_mean = nullptr;
  float* running_variance = nullptr;
  float* saved = nullptr;    ///< saved for backward; `batch_norm_saved_floats` floats
  float* sums = nullptr;     ///< sums of x, computed by the preceding convolution
  float* squares = nullptr;  ///< sums of x x, computed by the preceding convolution
  std::byte* workspace = nullptr;
};

/// Returns the distance in floats between consecutive vectors of `channels` elements. cuDNN
/// requires an alignment of 16 bytes.
constexpr std::int64_t vector_stride(std::int64_t channels) { return (channels + 3) / 4 * 4; }

/// The vectors that the forward pass saves for the backward pass, in consecutive memory.
struct BatchNormSaved {
  BatchNormSaved(float* saved, std::int64_t channels)
      : mean(saved),
        inverse_deviation(saved + vector_stride(channels)),
        scale(saved + 2 * vector_stride(channels)),
        offset(saved + 3 * vector_stride(channels)),
        totals(saved + 4 * vector_stride(channels)) {}
  float *mean, *inverse_deviation;
  float *scale, *offset;  ///< written by all forward passes except the single cuDNN node
  /// (2 channels + 1); the backward pass needs them if statistics are summed over replicas.
  float* totals;
};
constexpr std::int64_t batch_norm_saved_floats(std::int64_t channels) {
  return 4 * vector_stride(channels) + 2 * channels + 1;
}

/// One implementation of one pass.
class BatchNormPass {
 public:
  virtual ~BatchNormPass() = default;
  virtual std::string kind() const = 0;  ///< name without the engines of cuDNN
  virtual std::string name() const = 0;
  virtual std::size_t workspace_bytes() const = 0;
  virtual void bind(const BatchNormMemory& memory) = 0;
  virtual void run() = 0;
};

class BatchNormForward : public BatchNormPass {
 public:
  /// Returns whether the pass saves scale and offset for the backward pass.
  virtual bool leaves_coefficients() const { return true; }
};

class BatchNormBackward : public BatchNormPass {
 public:
  virtual bool reads_output() const = 0;
};

/// Properties of the operations adjacent to a batch norm that its passes depend on.
struct BatchNormRequirements {
  std::size_t output_gradients = 1;
  bool input = true;      ///< whether its gradient is needed
  bool residual = false;  ///< whether its gradient is needed
};
BatchNormSetting make_batch_norm_setting(const graph::BatchNorm& operation, const Context& context,
                                         const Step& step,
                                         const BatchNormRequirements& requirements);

/// Returns whether a pass may use cuDNN. cuDNN cannot sum over replicas, it compiles its batch norm
/// at run time, which --engines quick excludes, and its workspace is unknown if only sizes are.
inline bool may_use_cudnn(const Context& context) {
  return context.options.batch_norm_sum == nullptr &&
         context.planner->rules().selection == EngineSelection::timed &&
         context.planner->planning() == Planning::engines;
}

/// The operation that computes the sums over a batch.
enum class SumsFrom { batch_norm, convolution };

/// Returns the implementation candidates for the forward pass, the preferred one first; at least
/// one. `sums`: whether the preceding convolution has computed the sums (`BatchNormMemory::sums`).
std::vector<std::unique_ptr<BatchNormForward>> forward_candidates(const BatchNormSetting& setting,
                                                                  SumsFrom sums);

/// Returns the implementation candidates for the backward pass after `forward`, the preferred one
/// first; at least one.
std::vector<std::unique_ptr<BatchNormBackward>> backward_candidates(
    const BatchNormSetting& setting, const BatchNormForward& forward);

/// Returns the execution time of a pass on the GPU, in seconds. The time is stored
/// in the engine cache. Returns 0 if nothing is selected by timing, if the memory does not suffice,
/// or if the statistics are summed over replicas: the pass is then collective, but the ranks need
/// not time the same passes.
double seconds_of(const BatchNormSetting& setting, BatchNormPass& pass);

/// Writes the outcome for each candidate to the engine log. `seconds`: of the candidates, in the
/// same order; 0: not timed.
void log_candidates(const BatchNormSetting& setting,
                    const std::vector<const BatchNormPass*>& candidates,
                    const std::vector<double>& seconds, const std::string& chosen);

/// An implementation with its execution time in seconds; 0: not timed.
template <class Pass>
struct TimedCandidate {
  std::unique_ptr<Pass> candidate;
  double seconds = 0;
};

/// Whether an implementation without alternatives is timed, which only a comparison with other
/// operations needs.
enum class SingleCandidate { not_timed, timed };

/// Returns the fastest of the candidates that `make_candidates` returns for the setting, with its
/// time; the first one and 0 if they cannot be timed. Candidates are timed with at most
/// `most_timed_images` images.
template <class MakeCandidates>
auto fastest(const BatchNormSetting& setting, const MakeCandidates& make_candidates,
             SingleCandidate single = SingleCandidate::not_timed) {
  auto candidates = make_candidates(setting);
  using Pass = typename decltype(candidates)::value_type::element_type;
  if (candidates.size() == 1 && single == SingleCandidate::not_timed)
    return TimedCandidate<Pass>{std::move(candidates.front()), 0};
  BatchNormSetting timed = setting;
  timed.shape.images = std::min(setting.shape.images, most_timed_images);
  const bool is_smaller = timed.shape.images < setting.shape.images;
  const auto samples = is_smaller ? make_candidates(timed) : decltype(candidates){};
  std::vector<const BatchNormPass*> passes;
  std::vector<double> seconds;
  for (auto& candidate : candidates) {
    // The timed candidate of the same kind; a kind may lack an engine at one of the two sizes.
    const auto& list = is_smaller ? samples : candidates;
    const auto sample = std::ranges::find(list, candidate->kind(), &BatchNormPass::kind);
    passes.push_back(candidate.get());
    seconds.push_back(sample != list.end() ? seconds_of(timed, **sample) : 0);
  }
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i)
    if (seconds[i] > 0 && (seconds[chosen] == 0 || seconds[i] < seconds[chosen])) chosen = i;
  log_candidates(setting, passes, seconds, candidates[chosen]->kind());
  return TimedCandidate<Pass>{std::move(candidates[chosen]), seconds[chosen]};
}

/// Return the fastest implementation candidate of a pass.
inline TimedCandidate<BatchNormForward> fastest_forward(
    const BatchNormSetting& setting, SumsFrom sums,
    SingleCandidate single = SingleCandidate::not_timed) {
  return fastest(
      setting, [&](const BatchNormSetting& of) { return forward_candidates(of, sums); }, single);
}
inline TimedCandidate<BatchNormBackward> fastest_backward(const BatchNormSetting& setting,
                                                          const BatchNormForward& forward) {
  return fastest(setting,
                 [&](const BatchNormSetting& of) { return backward_candidates(of, forward); });
}

}  // namespace lockstep::backend::cuda
