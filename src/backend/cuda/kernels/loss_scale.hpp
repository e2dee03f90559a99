// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Loss scaling for float16 (Micikevicius et al., "Mixed precision training", 2018): the backward
// pass starts from loss x scale, so that small gradients do not underflow, and the update divides
// by the scale. If a gradient is not finite, the step is skipped and a dynamic scale is halved.
// After 2,000 successive steps without overflow, a dynamic scale is doubled.

#include <cstdint>

#include "device.hpp"

namespace lockstep::backend::cuda::kernels {

/// State of loss scaling, in device memory.
struct LossScale {
  float scale = 1;
  std::int32_t good_steps = 0;  ///< steps since the scale last changed or a step was skipped
  std::int32_t overflow = 0;    ///< 1: a gradient of this step is not finite
  std::int32_t skipped = 0;     ///< number of skipped steps so far
  std::int32_t dynamic = 0;     ///< 0: the scale is constant
};

constexpr std::int32_t good_steps_before_growth = 2000;
constexpr float largest_loss_scale = 65536.0f * 1024.0f;

/// Updates the state; launched once per step, after the update of the parameters.
/// Memory traffic: reads state; writes state.
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
