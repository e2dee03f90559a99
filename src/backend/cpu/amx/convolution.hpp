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

/// True if there is such a form: 1x1 or 3x3 with at least 16 channels on both sides, bfloat16 maps
/// in channels-last layout.
bool fits(const ConvolutionSizes& sizes, const FeatureMap& source, const FeatureMap& destination);

/// True if the processor has tiles; otherwise they are emulated, which is for tests.
bool is_fast();

/// For maps that outlive it; `fits` must be true. The weights are rounded to bfloat16, sums are
/// float32.
std::unique_ptr<ConvolutionDirection> make(Direction direction, int threads,
                                           const ConvolutionSizes& sizes, const FeatureMap& source,
                                           const FeatureMap& destination);

/// What a direction works with.
struct Resources {
  const Kernels* kernels = nullptr;
  int threads = 1;
  /// Bytes of cells that a thread works on at a time: with the weights of one block of channels
  /// they should stay in the second-level cache.
  std::int64_t cached_bytes = 1 << 20;
};
std::unique_ptr<ConvolutionDirection> make(Direction direction, const Resources& resources,
                                           const ConvolutionSizes& sizes, const FeatureMap& source,
                                           const FeatureMap& destination);

}  // namespace lockstep::backend::cpu::amx
