#pragma once

#include <cstdint>

namespace lockstep::core {

/// Where a crop of an image's own size begins in it, rows down and columns right (black beyond the
/// edges), and whether the crop is then mirrored left to right (1) or not (0).
struct CropFlip {
  std::int8_t dy = 0, dx = 0;
  std::uint8_t flip = 0;
};

}  // namespace lockstep::core
