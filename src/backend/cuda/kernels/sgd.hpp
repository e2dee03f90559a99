#pragma once

// Stochastic gradient descent on the flat buffers, as in lockstep/optim/sgd.hpp:
//   g' = gradient_scale g / loss_scale + weight_decay p;  v = momentum v + g';
//   p -= learning_rate (nesterov ? g' + momentum v : v)
// The same pass writes the native copy of p. Memory traffic per parameter: reads 8 bytes (p and v)
// and the gradient, writes 8 bytes and the native copy.

#include "loss_scale.hpp"
#include "segments.hpp"
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
/// not finite (`LossScale::overflow`).
template <class W>
struct SgdUpdate {
  SegmentTable table;
  float* parameters;   ///< flat buffer
  float* velocity;     ///< flat buffer
  const W* gradients;  ///< flat buffer
  const SgdCoefficients* coefficients;
  const LossScale* loss_scale;         ///< null: scale 1, no check for overflow
  const float* clip_factor = nullptr;  ///< one factor of all gradients; null: 1

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return table.count(); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const Segment& segment = table.segments[index / segment_elements];
    const std::int64_t element = index % segment_elements;
    if (element >= segment.count) return;
    SgdCoefficients sgd = *coefficients;
    if (loss_scale != nullptr) {
      if (loss_scale->overflow != 0) return;
      sgd.gradient_scale /= loss_scale->scale;
    }
    if (clip_factor != nullptr) sgd.gradient_scale *= *clip_factor;
    const std::int64_t flat = segment.flat + element;
    float parameter = parameters[flat];
    float speed = velocity[flat];
    sgd_step(sgd, load(gradients, flat), parameter, speed);
    parameters[flat] = parameter;
    velocity[flat] = speed;
    if (segment.weight != nullptr)
      store_as(segment.weight_type, segment.weight, segment.native(element), parameter);
  }
};

}  // namespace lockstep::backend::cuda::kernels
