#pragma once

// Stochastic gradient descent on the flat buffers, as in lockstep/optim/update.hpp:
//   g' = gradient_scale g / loss_scale + weight_decay p;  v = momentum v + g';
//   p -= learning_rate (nesterov ? g' + momentum v : v)
// The same pass writes the native copy of p. Memory traffic per parameter: reads 8 bytes (p and v)
// and the gradient, writes 8 bytes and the native copy, in total 20 bytes if gradient and copy are
// 16-bit, 22 if only the copy is, and 20 if both are float32 (there is no copy then). Each thread
// updates four parameters, with accesses of 16 bytes, and of 8 bytes for 16-bit tensors.

#include "loss_scale.hpp"
#include "step_inputs.hpp"

namespace lockstep::backend::cuda::kernels {

/// Updates one parameter and its velocity by one step.
LOCKSTEP_HOST_DEVICE inline void sgd_step(const SgdCoefficients& sgd, float gradient,
                                          float& parameter, float& velocity) {
  const float with_decay = sgd.gradient_scale * gradient + sgd.weight_decay * parameter;
  velocity = sgd.momentum * velocity + with_decay;
  parameter -=
      sgd.learning_rate * (sgd.nesterov != 0 ? with_decay + sgd.momentum * velocity : velocity);
}

/// Updates parameters and velocity by one step; leaves both unchanged if a gradient of the step is
/// not finite (`LossScale::overflow`). The gradients are those of the segments: after an all-reduce
/// the flat ones, otherwise the native ones.
/// Memory traffic: reads parameters, velocity, gradients; writes parameters, velocity, native
/// weights; from caches: segments, coefficients, loss_scale, clip_factor.
struct SgdUpdate {
  SegmentTable table;
  float* parameters;  ///< flat buffer
  float* velocity;    ///< flat buffer
  const SgdCoefficients* coefficients;
  const LossScale* loss_scale;         ///< null: scale 1, no check for overflow
  const float* clip_factor = nullptr;  ///< one factor of all gradients; null: 1

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return table.groups(); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const Group group = table.group(index);
    if (group.count <= 0) return;
    SgdCoefficients sgd = *coefficients;
    if (loss_scale != nullptr) {
      if (loss_scale->overflow != 0) return;
      sgd.gradient_scale /= loss_scale->scale;
    }
    if (clip_factor != nullptr) sgd.gradient_scale *= *clip_factor;
    const Segment& segment = *group.segment;
    const std::int64_t flat = segment.flat + group.element;
    float gradient[group_elements], parameter[group_elements], speed[group_elements];
    // The conversion of a 16-bit gradient waits for its load, so the other loads are issued first.
    load_elements(parameters, flat, group.count, parameter);
    load_elements(velocity, flat, group.count, speed);
    load_group(segment.gradient, group, gradient);
    for (int lane = 0; lane < group_elements; ++lane)
      sgd_step(sgd, gradient[lane], parameter[lane], speed[lane]);
    store_elements(parameters, flat, group.count, parameter);
    store_elements(velocity, flat, group.count, speed);
    if (segment.weight.data != nullptr) store_group(segment.weight, group, parameter);
  }
};

}  // namespace lockstep::backend::cuda::kernels
