// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>

namespace lockstep::core {

/// Coefficients of the image normalisation per channel: normalised = (pixel / 255 - mean) /
/// standard_deviation. Channels beyond the third use the values of the third. The defaults only
/// scale the pixels to [0, 1].
struct Normalisation {
  std::array<float, 3> mean{0, 0, 0};
  std::array<float, 3> standard_deviation{1, 1, 1};
};

}  // namespace lockstep::core
