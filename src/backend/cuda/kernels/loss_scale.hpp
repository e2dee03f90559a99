#pragma once

// Loss scaling for float16 (Micikevicius et al., "Mixed precision training", 2018): gradients are
// computed of loss x scale, so that small ones are not lost; the step divides by the scale. A
// dynamic scale halves where a gradient is not finite, and that step is left out; it doubles after
// 2,000 good steps in a row.

#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

/// The state, in device memory.
struct LossScale {
  float scale = 1;
  std::int32_t good_steps = 0;  ///< since the scale last changed or a step was left out
  std::int32_t overflow = 0;    ///< 1: a gradient of this step is not finite
  std::int32_t skipped = 0;     ///< steps left out so far
  std::int32_t dynamic = 0;     ///< 0: the scale stays
};

constexpr std::int32_t good_steps_before_growth = 2000;
constexpr float largest_loss_scale = 65536.0f * 1024.0f;

/// Sets `state->overflow` where one of the gradients (elements) is infinite or NaN.
template <class W>
struct FiniteCheck {
  const W* gradients;
  LossScale* state;
  std::int64_t elements;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return lane_groups<W>(elements); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    float values[lanes_of<W>];
    load_lanes(gradients, index * lanes_of<W>, elements, values);
    bool is_finite = true;
    for (const float value : values) is_finite = is_finite && value < infinity && value > -infinity;
    if (!is_finite) state->overflow = 1;
  }
};

/// Once per step, after the update. One index.
struct LossScaleUpdate {
  LossScale* state;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return 1; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t) const {
    LossScale next = *state;
    if (next.overflow != 0) {
      ++next.skipped;
      next.good_steps = 0;
      if (next.dynamic != 0) next.scale = next.scale / 2 > 1 ? next.scale / 2 : 1.0f;
    } else if (++next.good_steps >= good_steps_before_growth) {
      next.good_steps = 0;
      if (next.dynamic != 0)
        next.scale = next.scale * 2 < largest_loss_scale ? next.scale * 2 : largest_loss_scale;
    }
    next.overflow = 0;
    *state = next;
  }
};

}  // namespace lockstep::backend::cuda::kernels
