// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

/// One implementation of the forward or of the backward pass.
class BatchNormPass {
 public:
  virtual ~BatchNormPass() = default;
  virtual std::string name() const = 0;
  virtual std::size_t workspace_bytes() const = 0;
  /// Returns whether a forward pass saves scale and offset for the backward pass.
  virtual bool leaves_coefficients() const { return true; }
  /// Returns whether a backward pass reads the output of the batch norm.
  virtual bool reads_output() const { return false; }
  virtual void bind(const BatchNormMemory& memory) = 0;
  virtual void run() = 0;
};
using BatchNormCandidates = std::vector<std::unique_ptr<BatchNormPass>>;

/// Returns the setting of a batch norm in training whose gradients are all needed.
BatchNormSetting make_batch_norm_setting(const graph::BatchNorm& operation, const Context& context,
                                         const Step& step);

/// Returns whether a pass may use cuDNN. cuDNN cannot sum over replicas, it compiles its batch norm
/// at run time, which --engines quick excludes, and its workspace is unknown if only sizes are.
inline bool may_use_cudnn(const Context& context) {
  return context.options.batch_norm_sum == nullptr &&
         context.planner->rules().selection == EngineSelection::timed &&
         context.planner->planning() != Planning::sizes_only;
}

/// The operation that computes the sums over a batch.
enum class SumsFrom { batch_norm, convolution };

/// Returns the implementation candidates for the forward pass, the preferred one first; at least
/// one. `sums`: whether the preceding convolution has computed the sums (`BatchNormMemory::sums`).
BatchNormCandidates forward_candidates(const BatchNormSetting& setting, SumsFrom sums);

/// Returns the implementation candidates for the backward pass after `forward`, the preferred one
/// first; at least one.
BatchNormCandidates backward_candidates(const BatchNormSetting& setting,
                                        const BatchNormPass& forward);

}  // namespace lockstep::backend::cuda
