// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "../../feature_map.hpp"
#include "../fused_statistics.hpp"
#include "winograd_panels.hpp"

// The arithmetic of Winograd's minimal filtering F(4x4, 3x3) (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2016, arXiv:1509.09308) for 3x3 convolutions of stride 1 with one
// pixel of padding. A 4x4 tile of the output is computed from a 6x6 patch of the input with 36
// products per pair of channels instead of 144:
//
//   forward           Y  = At [ (G g Gt) * (Bt d B) ] A       summed over input channels
//   weight gradient   dg = Gt [ (A dY At) * (Bt d B) ] G      summed over tiles, the exact adjoint
//   input gradient    forward on dY with the kernel rotated and its channels swapped
//
// The products are evaluated at the points 0, +-1/sqrt(2), +-sqrt(2) and infinity, whose rounding
// error (1e-6 of a tensor's norm in float32) is a third of that of the customary 0, +-1, +-2,
// infinity.
//
// All transformed values are float32 and are stored in panels: for each of the 36 products
// ("frequencies"), matrices of [panel][entry][lane] with channel = panel * panel_lanes + lane, so
// that the matrix products read consecutive memory. Feature maps may be float32 or bfloat16, in any
// layout whose lanes fill whole vectors.

namespace lockstep::backend::cpu::winograd {

/// Returns the number of floats per vector register, 16 or 8, that the kernels use on this
/// processor for maps with `map_lanes` lanes.
int vector_lanes(std::int64_t map_lanes);
static_assert(PartialSums::channels >= panel_lanes(16));

/// Returns the tiles of a map.
Tiling tiling_of(const FeatureMap& map);

/// Transforms the input: writes Bt d B of tiles `range`, all channels of the map, to the entries
/// from `first_entry` on of `to`.
void transform_input(const FeatureMap& map, Tiling tiling, TileRange range, const Panels& to,
                     std::int64_t first_entry);
/// Transforms the output gradient likewise: A dY At. If `sums` is not null, the sum of each channel
/// over these tiles is added to it.
void transform_gradient(const FeatureMap& map, Tiling tiling, TileRange range, const Panels& to,
                        std::int64_t first_entry, float* sums);
/// Transforms the weights: writes G g Gt of the kernels that connect the depth channels with the
/// channels of panel `panel` to the single panel `to`, one entry per depth channel.
void transform_weights(const Kernels& kernels, std::int64_t panel, const Panels& to);
/// Transforms the products to the output: writes At m A of a single panel, whose entries from
/// `first_entry` on are the tiles, to the channels of panel `panel` of the map. `bias`: one value
/// per channel of the map, or null. The values that are written are added to `statistics`, if it is
/// not null.
void transform_output(const Panels& from, std::int64_t first_entry, const FeatureMap& map,
                      Tiling tiling, TileRange range, std::int64_t panel, const float* bias,
                      PartialSums* statistics);
/// Transforms the products to the weight gradient: computes Gt u G of a single panel whose entries
/// are the depth channels from `first_depth` on, and stores it in the gradient of the kernels, or
/// adds it if `accumulate` is true.
void transform_weight_gradient(const Panels& from, const Kernels& kernels, std::int64_t first_depth,
                               std::int64_t panel, bool accumulate);

/// Fetches part `part` of `parts` of the pixels of some tiles of size x size pixels, `count`
/// channels from `channel` on, into the L2 cache. Called between the products that precede the
/// transform of these tiles, it hides the time of the memory.
void prefetch_tiles(const FeatureMap& map, Tiling tiling, TileRange range, std::int64_t size,
                    std::int64_t channel, std::int64_t count, std::int64_t part,
                    std::int64_t parts);

}  // namespace lockstep::backend::cpu::winograd
