// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/optim/gradient_clipping.hpp"

#include <algorithm>
#include <cmath>

#include "squares.hpp"

namespace lockstep::optim {

float clipping_factor(double max_norm, float gradient_scale, std::span<const float> gradients) {
  const double norm = static_cast<double>(gradient_scale) * std::sqrt(sum_of_squares(gradients));
  return static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6)));
}

}  // namespace lockstep::optim
