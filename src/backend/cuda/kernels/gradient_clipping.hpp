#pragma once

// Clipping of the global gradient norm, as in lockstep/optim/gradient_clipping.hpp:
//   factor = min(1, max_norm / (norm + 1e-6)), norm = gradient_scale / loss_scale |gradients|.
// The order of the additions is fixed, so that replicas with equal gradients stay equal. Memory
// traffic: the gradients are read once.

#include <cmath>

#include "sgd.hpp"

namespace lockstep::backend::cuda::kernels {

/// Number of partial sums: enough blocks for all multiprocessors of an H200 (132, of 8 blocks).
constexpr std::int64_t clipping_parts = 1024;

/// Intermediate and final result of clipping, in device memory.
struct GradientClipping {
  double squares[clipping_parts] = {};  ///< partial sums of the squares of the gradients
  float factor = 1;                     ///< factor of all gradients of the step
};

/// Computes the partial sums of squares of the gradients (elements).
/// Memory traffic: reads gradients; writes clipping.
template <class W>
struct GradientSquares {
  static constexpr int team = 256;

  const W* gradients;
  GradientClipping* clipping;
  std::int64_t elements;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return clipping_parts; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t part) const {
    const std::int64_t groups = elements / lanes_of<W>;
    const std::int64_t first = groups * part / clipping_parts;
    const std::int64_t end = groups * (part + 1) / clipping_parts;
    double sum = team_sum<team, double>(end - first, [&](std::int64_t group) -> double {
      const auto values = load_pack<lanes_of<W>>(gradients + (first + group) * lanes_of<W>);
      double squares = 0;
      for (int lane = 0; lane < lanes_of<W>; ++lane) squares += square(values[lane]);
      return squares;
    });
    if (team_lane<team>() != 0) return;
    if (part == clipping_parts - 1) {
      for (std::int64_t i = groups * lanes_of<W>; i < elements; ++i)
        sum += square(load(gradients, i));
    }
    clipping->squares[part] = sum;
  }

 private:
  LOCKSTEP_HOST_DEVICE static double square(float value) {
    return static_cast<double>(value) * static_cast<double>(value);
  }
};

/// Computes the factor from the partial sums.
/// Memory traffic: reads clipping; writes clipping; from caches: coefficients, loss_scale.
struct ClippingFactor {
  static constexpr int team = 256;

  GradientClipping* clipping;
  const SgdCoefficients* coefficients;
  const LossScale* loss_scale;  ///< null: scale 1
  double max_norm;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return 1; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t) const {
    const double squares = team_sum<team, double>(
        clipping_parts, [&](std::int64_t part) -> double { return clipping->squares[part]; });
    if (team_lane<team>() != 0) return;
    double scale = static_cast<double>(coefficients->gradient_scale);
    if (loss_scale != nullptr) scale /= static_cast<double>(loss_scale->scale);
    const double factor = max_norm / (scale * std::sqrt(squares) + 1e-6);
    clipping->factor = factor < 1 ? static_cast<float>(factor) : 1.0f;
  }
};

}  // namespace lockstep::backend::cuda::kernels
