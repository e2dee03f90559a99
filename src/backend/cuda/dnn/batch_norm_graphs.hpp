#pragma once

#include <cstdint>

#include "dnn_graph.hpp"

namespace lockstep::backend::cuda {

/// Uids of the tensors. Maps are (images, height, width, channels) of the precision's activation
/// type; vectors are (channels), float32.
namespace batch_norm_tensor {
inline constexpr std::int64_t x = 1;                       ///< map: what is normalised
inline constexpr std::int64_t scale = 2;                   ///< vector
inline constexpr std::int64_t bias = 3;                    ///< vector
inline constexpr std::int64_t running_mean = 4;            ///< vector, before the step
inline constexpr std::int64_t running_variance = 5;        ///< vector, before the step
inline constexpr std::int64_t residual = 6;                ///< map: what is added before the ReLU
inline constexpr std::int64_t y = 7;                       ///< map: the result, after ReLU if any
inline constexpr std::int64_t mean = 8;                    ///< vector: the batch's
inline constexpr std::int64_t inverse_deviation = 9;       ///< vector: 1 / sqrt(variance + epsilon)
inline constexpr std::int64_t next_running_mean = 10;      ///< vector, after the step
inline constexpr std::int64_t next_running_variance = 11;  ///< vector, after the step
inline constexpr std::int64_t dy = 12;                     ///< map: the incoming gradient
inline constexpr std::int64_t dy_more = 13;                ///< map: a second one, to be added
inline constexpr std::int64_t masked_dy = 14;              ///< map: their sum where y > 0
inline constexpr std::int64_t dx = 15;                     ///< map
inline constexpr std::int64_t dscale = 16;                 ///< vector
inline constexpr std::int64_t dbias = 17;                  ///< vector
inline constexpr std::int64_t sums = 18;                   ///< vector: of x, or of the gradient
inline constexpr std::int64_t products = 19;  ///< vector: sums of x x, or of the gradient x
inline constexpr std::int64_t a = 20, b = 21, c = 22;  ///< vectors: dx = a gradient + b x + c
}  // namespace batch_norm_tensor

struct BatchNormShape {
  std::int64_t images = 0, channels = 0, height = 0, width = 0;
};

/// What follows the batch norm in the same kernel.
enum class BatchNormTail { none, relu, add_relu };

/// One kernel for a batch norm in training: x, scale, bias, running_mean, running_variance
/// [, residual] -> y, mean, inverse_deviation, next_running_mean, next_running_variance. The
/// running vectors move as next = (1 - momentum) * old + momentum * batch's, the variance unbiased.
/// A refusal where the target has no such kernel (before Ampere): use our own.
PlannedGraph batch_norm_forward(DnnPlanner& planner, const BatchNormShape& shape,
                                core::Precision precision, BatchNormTail tail, float epsilon,
                                float momentum);

enum class IncomingGradients { one, two };
/// A ReLU follows; its mask is found as y > 0 (`from_output`), or where there is no y in memory by
/// making it again (`recomputed`).
enum class ReluMask { none, from_output, recomputed };
/// `written`: the gradient after the mask is also wanted in memory, for the residual's branch.
enum class GradientFork { none, written };

/// What the backward pass of a batch norm takes and gives besides dx, dscale and dbias.
struct BatchNormGradientFlow {
  IncomingGradients incoming = IncomingGradients::one;
  ReluMask mask = ReluMask::none;
  GradientFork fork = GradientFork::none;
};

/// One kernel for its gradients: dy[, dy_more][, y], x, scale[, bias], mean, inverse_deviation
/// -> dx, dscale, dbias[, masked_dy]. A refusal as above.
PlannedGraph batch_norm_backward(DnnPlanner& planner, const BatchNormShape& shape,
                                 core::Precision precision, const BatchNormGradientFlow& flow);

// The same in two passes each, with a kernel of our own between them, for GPUs without the above.
// The sums are added to what is in memory or overwrite it: it must be 0 before.

/// x -> sums, products.
PlannedGraph batch_norm_sums(DnnPlanner& planner, const BatchNormShape& shape,
                             core::Precision precision);

/// x, scale, bias[, residual] -> y = [relu](scale x + bias [+ residual]).
PlannedGraph batch_norm_apply(DnnPlanner& planner, const BatchNormShape& shape,
                              core::Precision precision, BatchNormTail tail);

/// dy[, dy_more][, y], x -> sums, products[, masked_dy]; the mask from the output or none.
PlannedGraph batch_norm_gradient_sums(DnnPlanner& planner, const BatchNormShape& shape,
                                      core::Precision precision, const BatchNormGradientFlow& flow);

/// dy[, dy_more][, y], x, a, b, c -> dx.
PlannedGraph batch_norm_input_gradient(DnnPlanner& planner, const BatchNormShape& shape,
                                       core::Precision precision,
                                       const BatchNormGradientFlow& flow);

}  // namespace lockstep::backend::cuda
