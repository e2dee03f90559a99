// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "dnn_graph.hpp"

namespace lockstep::backend::cuda {

/// Uids of the tensors. Maps are (images, height, width, channels) in the activation data type of
/// the precision; vectors are (channels), float32.
namespace batch_norm_tensor {
inline constexpr std::int64_t x = 1;                 ///< map: input of the batch norm
inline constexpr std::int64_t scale = 2;             ///< vector
inline constexpr std::int64_t bias = 3;              ///< vector
inline constexpr std::int64_t running_mean = 4;      ///< vector, before the step
inline constexpr std::int64_t running_variance = 5;  ///< vector, before the step
inline constexpr std::int64_t residual = 6;          ///< map: added before the ReLU
inline constexpr std::int64_t y = 7;     ///< map: the output, after the ReLU if there is one
inline constexpr std::int64_t mean = 8;  ///< vector: mean over the batch
inline constexpr std::int64_t inverse_deviation = 9;       ///< vector: 1 / sqrt(variance + epsilon)
inline constexpr std::int64_t next_running_mean = 10;      ///< vector, after the step
inline constexpr std::int64_t next_running_variance = 11;  ///< vector, after the step
inline constexpr std::int64_t dy = 12;                     ///< map: the incoming gradient
inline constexpr std::int64_t dy_more = 13;    ///< map: a second incoming gradient, added to dy
inline constexpr std::int64_t masked_dy = 14;  ///< map: dy [+ dy_more] where y > 0, else 0
inline constexpr std::int64_t dx = 15;         ///< map
inline constexpr std::int64_t dscale = 16;     ///< vector
inline constexpr std::int64_t dbias = 17;      ///< vector
}  // namespace batch_norm_tensor

struct BatchNormShape {
  std::int64_t images = 0, channels = 0, height = 0, width = 0;
};

/// Operations fused after the batch norm.
enum class BatchNormTail { none, relu, add_relu };

/// Plans a single fused graph for batch norm in training: x, scale, bias, running_mean,
/// running_variance[, residual] -> y, mean, inverse_deviation, next_running_mean,
/// next_running_variance. The running statistics are updated as next = (1 - momentum) * old +
/// momentum * batch, with the unbiased variance. The result has a null graph and a reason if cuDNN
/// has no engine for the target (GPUs before Ampere).
PlannedGraph batch_norm_forward(DnnPlanner& planner, const BatchNormShape& shape,
                                core::Precision precision, BatchNormTail tail, float epsilon,
                                float momentum);

/// Mask of a ReLU that follows the batch norm: none (no ReLU); y > 0 for the stored output
/// (`from_output`); or the sign of y recomputed from x, so that y is not read (`recomputed`).
enum class ReluMask { none, from_output, recomputed };

/// Optional operands of the backward pass of a batch norm, besides dx, dscale and dbias.
struct BatchNormGradientFlow {
  bool has_two_gradients = false;  ///< dy_more is added to dy
  ReluMask mask = ReluMask::none;
  bool writes_masked = false;  ///< stores the masked gradient, for the residual branch
};

/// Plans a single fused graph for the gradients of batch norm: dy[, dy_more][, y], x, scale[,
/// bias], mean, inverse_deviation -> dx, dscale, dbias[, masked_dy]. The result has a null graph
/// and a reason if cuDNN has no engine for the target.
PlannedGraph batch_norm_backward(DnnPlanner& planner, const BatchNormShape& shape,
                                 core::Precision precision, const BatchNormGradientFlow& flow);

}  // namespace lockstep::backend::cuda
