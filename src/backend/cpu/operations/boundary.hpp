// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "../context.hpp"

namespace lockstep::backend::cpu {

/// Converts uint8 images (n, channels, height, width), n <= map.images, to normalised values in a
/// feature map.
class ImageNormaliser {
 public:
  ImageNormaliser(const Normalisation& normalisation, std::int64_t channels, int threads);
  void run(std::span<const std::uint8_t> images, const FeatureMap& map) const;

 private:
  std::vector<float> table_;  ///< (channel, 256): the normalised value of each byte
  int threads_;
};

/// Copies `values` (images, channels, height, width) to a feature map, and to 0 its padding.
void write_values(std::span<const float> values, const FeatureMap& map, int threads);
/// Copies a feature map to `values` (images, channels, height, width).
void read_values(const FeatureMap& map, std::span<float> values, int threads);

}  // namespace lockstep::backend::cpu
