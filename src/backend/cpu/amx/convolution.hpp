#pragma once

#include <cstdint>
#include <memory>

#include "../../feature_map.hpp"
#include "../convolution_direction.hpp"
#include "../onednn.hpp"

// Convolutions of bfloat16 maps with AMX tile instructions. geometry: rows and cells that a
// direction needs; map_direction and weights_direction: memory and threads; kernels: arithmetic.

namespace lockstep::backend::cpu::amx {

class Kernels;

/// Number of images that a direction processes at a time; fewer images take the same time.
constexpr std::int64_t images_at_once = 32;

/// The layout that maps must have.
constexpr MapLayout map_layout = MapLayout::channels_last;

/// Returns true for 1x1 and 3x3 convolutions with at least 16 channels on both sides.
bool supports(const ConvolutionSizes& sizes);
/// Returns true if the convolution is supported with these maps: bfloat16 in `map_layout`.
bool fits(const ConvolutionSizes& sizes, const FeatureMap& source, const FeatureMap& destination);

struct Resources {
  const Kernels* kernels = nullptr;
  int threads = 1;
  /// Bytes of cells that a thread reads at a time. Together with the weights of one block of
  /// channels, they should stay in the L2 cache.
  std::int64_t cached_bytes = 1 << 20;
};

/// Creates a direction with weights rounded to bfloat16 and float32 accumulation. `fits` must be
/// true. The kernels and the maps must outlive the direction.
std::unique_ptr<ConvolutionDirection> make(Direction direction, const Resources& resources,
                                           const ConvolutionSizes& sizes, const FeatureMap& source,
                                           const FeatureMap& destination);

}  // namespace lockstep::backend::cpu::amx
