// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Loss scaling for float16 (Micikevicius et al., "Mixed precision training", 2018): the backward
// pass starts from loss x scale, so that small gradients do not underflow, and the update divides
// by the scale. If a gradient is not finite, the step is skipped and a dynamic scale is halved.
// After 2,000 successive steps without overflow, a dynamic scale is doubled.
//
// Clipping of the global gradient norm, as in lockstep/optim/update.hpp:
//   factor = min(1, max_norm / (norm + 1e-6)), norm = gradient_scale / loss_scale |gradients|.
// The order of the additions is fixed, so that replicas with equal gradients stay equal. Memory
// traffic: the gradients are read once. If a gradient is not finite, neither is the sum of squares
// (in float64, squares of finite float32 numbers do not overflow), so the same pass detects an
// overflow of the loss scaling; without clipping, `max_norm` is infinite and the factor 1.

#include <cmath>
#include <cstdint>

#include "lockstep/optim/update.hpp"
#include "segments.hpp"

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

/// Number of partial sums: enough blocks for all multiprocessors of an H200 (132, of 8 blocks).
constexpr std::int64_t clipping_parts = 1024;

/// Intermediate and final result of clipping, in device memory.
struct GradientClipping {
  double squares[clipping_parts] = {};  ///< partial sums of the squares of the gradients
  float factor = 1;                     ///< factor of all gradients of the step
};

/// Computes the partial sums of squares of the gradients of the segments.
/// Memory traffic: reads gradients; writes clipping; from caches: segments.
struct GradientSquares {
  static constexpr int team = 256;

  SegmentTable table;
  GradientClipping* clipping;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return clipping_parts; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t part) const {
    static_assert(team == segment_groups);
    const std::int64_t first = table.size * part / clipping_parts;
    const std::int64_t end = table.size * (part + 1) / clipping_parts;
    // Each thread sums its group of every segment of the part.
    const double sum = team_sum<team, double>(team, [&](std::int64_t thread) {
      double squares = 0;
      for (std::int64_t segment = first; segment < end; ++segment)
        squares += group_squares(table.group(segment * segment_groups + thread));
      return squares;
    });
    if (team_lane<team>() == 0) clipping->squares[part] = sum;
  }

 private:
  LOCKSTEP_HOST_DEVICE static double group_squares(const Group& group) {
    if (group.count <= 0) return 0;
    float values[group_elements];
    load_group(group.segment->gradient, group, values);
    double squares = 0;
    for (const float value : values)
      squares += static_cast<double>(value) * static_cast<double>(value);
    return squares;
  }
};

/// Computes the factor from the partial sums. Sets `LossScale::overflow` if they are not finite.
/// Memory traffic: reads clipping; writes clipping; from caches: coefficients, loss_scale.
struct ClippingFactor {
  static constexpr int team = 256;

  GradientClipping* clipping;
  const optim::Coefficients* coefficients;
  LossScale* loss_scale;  ///< null: scale 1, no check for overflow
  double max_norm;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return 1; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t) const {
    const double squares = team_sum<team, double>(
        clipping_parts, [&](std::int64_t part) -> double { return clipping->squares[part]; });
    if (team_lane<team>() != 0) return;
    double scale = static_cast<double>(coefficients->gradient_scale);
    if (loss_scale != nullptr) {
      scale /= static_cast<double>(loss_scale->scale);
      if (!(squares < static_cast<double>(infinity))) loss_scale->overflow = 1;
    }
    const double factor = max_norm / (scale * std::sqrt(squares) + 1e-6);
    clipping->factor = factor < 1 ? static_cast<float>(factor) : 1.0f;
  }
};

}  // namespace lockstep::backend::cuda::kernels
