// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace lockstep::core {

/// Shape of the feature map of one image (C x H x W), without the batch dimension.
struct ImageShape {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  std::int64_t pixels() const { return height * width; }
  std::int64_t elements() const { return channels * height * width; }
  bool is_empty() const { return channels <= 0 || height <= 0 || width <= 0; }
  bool operator==(const ImageShape&) const = default;
};

}  // namespace lockstep::core
