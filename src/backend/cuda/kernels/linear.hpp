#pragma once

// Fully connected layer in float32: x (rows, inputs), w (outputs, inputs), y (rows, outputs).
//   y = x w^T + bias;  dx = dy w;  dw = dy^T x;  dbias = sum over rows of dy
// The layer takes little time compared to the convolutions, so the kernels compute plain sums.
// Memory accesses of neighbouring threads are contiguous.

#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

/// Returns the sum of `read(0)` to `read(n - 1)`, computed by one thread with 8 accumulators, so
/// that 8 loads can be in flight.
template <class Read>
LOCKSTEP_HOST_DEVICE float chained_sum(std::int64_t n, Read read) {
  constexpr int chains = 8;
  float sums[chains] = {};
  std::int64_t i = 0;
  for (; i + chains <= n; i += chains) {
    for (int chain = 0; chain < chains; ++chain) sums[chain] += read(i + chain);
  }
  for (; i < n; ++i) sums[0] += read(i);
  float sum = 0;
  for (const float chain : sums) sum += chain;
  return sum;
}

/// Computes y. bias (outputs); null: none. One warp computes one element of y.
struct LinearForward {
  static constexpr int team = 32;

  const float* x;
  const float* w;
  const float* bias;
  float* y;
  std::int64_t rows, inputs, outputs;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return rows * outputs; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const Division at = divide(index, outputs);
    const float* const left = x + at.quotient * inputs;
    const float* const right = w + at.remainder * inputs;
    const float sum =
        team_sum<team, float>(inputs, [&](std::int64_t i) { return left[i] * right[i]; });
    if (team_lane<team>() == 0) y[index] = bias != nullptr ? sum + bias[at.remainder] : sum;
  }
};

struct LinearInputGradient {
  const float* dy;
  const float* w;
  float* dx;
  std::int64_t rows, inputs, outputs;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return rows * inputs; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const Division at = divide(index, inputs);
    const float* const gradients = dy + at.quotient * outputs;
    const float* const weights = w + at.remainder;
    const std::int64_t step = inputs;
    dx[index] =
        chained_sum(outputs, [&](std::int64_t k) { return gradients[k] * weights[k * step]; });
  }
};

struct LinearWeightGradient {
  const float* dy;
  const float* x;
  float* dw;
  std::int64_t rows, inputs, outputs;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return outputs * inputs; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const Division at = divide(index, inputs);
    const float* const gradients = dy + at.quotient;
    const float* const values = x + at.remainder;
    const std::int64_t in = inputs, out = outputs;
    dw[index] = chained_sum(
        rows, [&](std::int64_t row) { return gradients[row * out] * values[row * in]; });
  }
};

struct LinearBiasGradient {
  static constexpr int team = 256;

  const float* dy;
  float* dbias;
  std::int64_t rows, outputs;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return outputs; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t output) const {
    const float sum =
        team_sum<team, float>(rows, [&](std::int64_t row) { return dy[row * outputs + output]; });
    if (team_lane<team>() == 0) dbias[output] = sum;
  }
};

}  // namespace lockstep::backend::cuda::kernels
