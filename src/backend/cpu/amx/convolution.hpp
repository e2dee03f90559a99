#pragma once

#include <cstdint>
#include <memory>

#include "../../feature_map.hpp"
#include "../convolution_direction.hpp"
#include "../onednn.hpp"

// Convolutions of bfloat16 maps by tile products (AMX). geometry has the rows and cells that a
// direction needs; map_direction and weights_direction have the memory and the threads; kernels has
// the arithmetic.

namespace lockstep::backend::cpu::amx {

class Kernels;

/// A direction works on this many images at a time; fewer take as long.
constexpr std::int64_t images_at_once = 32;

/// The layout that maps must have.
constexpr MapLayout map_layout = MapLayout::channels_last;

/// Returns true for 1x1 and 3x3 convolutions with at least 16 channels on both sides.
bool supports(const ConvolutionSizes& sizes);
/// Returns true if the convolution is supported with these maps: bfloat16 in `map_layout`.
bool fits(const ConvolutionSizes& sizes, const FeatureMap& source, const FeatureMap& destination);

/// Returns a direction with weights rounded to bfloat16 and float32 sums. `fits` must be true. The
/// maps must outlive the direction. If the processor has no tiles, they are emulated, for tests.
std::unique_ptr<ConvolutionDirection> make(Direction direction, int threads,
                                           const ConvolutionSizes& sizes, const FeatureMap& source,
                                           const FeatureMap& destination);

struct Resources {
  const Kernels* kernels = nullptr;
  int threads = 1;
  /// Bytes of cells that a thread reads at a time. With the weights of one block of channels they
  /// should stay in the second-level cache.
  std::int64_t cached_bytes = 1 << 20;
};
std::unique_ptr<ConvolutionDirection> make(Direction direction, const Resources& resources,
                                           const ConvolutionSizes& sizes, const FeatureMap& source,
                                           const FeatureMap& destination);

}  // namespace lockstep::backend::cpu::amx
