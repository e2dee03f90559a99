// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace lockstep::core {

/// Random crop and horizontal flip of one image. The crop has the size of the image; its top-left
/// corner is `dy` rows below and `dx` columns to the right of the image's. Pixels outside the image
/// are black. `flip`: 1 if the crop is then mirrored left to right, else 0.
struct CropFlip {
  std::int8_t dy = 0, dx = 0;
  std::uint8_t flip = 0;
};

}  // namespace lockstep::core
