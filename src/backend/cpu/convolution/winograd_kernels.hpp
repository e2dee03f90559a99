// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "../../feature_map.hpp"
#include "../fused_statistics.hpp"

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

inline constexpr std::int64_t frequencies = 36;
inline constexpr std::int64_t tile_size = 4;

/// Returns the number of floats per vector register, 16 or 8, that the kernels use on this
/// processor for maps with `map_lanes` lanes.
int vector_lanes(std::int64_t map_lanes);
/// Channels per panel: two vectors.
constexpr std::int64_t panel_lanes(int vector_lanes) { return 2 * vector_lanes; }
static_assert(PartialSums::channels >= panel_lanes(16));

/// The 4x4 tiles that cover a batch of maps, in the order image, row, column.
struct Tiling {
  std::int64_t rows = 0, columns = 0;  ///< rows and columns of tiles in one image
  std::int64_t count = 0;              ///< tiles in the batch
};
Tiling tiling_of(const FeatureMap& map);

/// Consecutive tiles of a batch.
struct TileRange {
  std::int64_t first = 0, count = 0;
};

/// One matrix of [panel][entry][lane] for each frequency. An entry is a tile or an input channel.
/// In the transformed maps of a convolution of stride 2, several products of a tile use the weights
/// of a frequency; each of them has its own entry.
struct Panels {
  float* data = nullptr;
  std::int64_t entries = 0;  ///< per panel; or tiles
  std::int64_t panels = 0;
  int vector_lanes = 8;
  bool is_strided_map = false;

  /// One cache line more than the matrix; otherwise all frequencies of an entry would map to the
  /// same cache set.
  static constexpr std::int64_t gap = 16;

  std::int64_t lanes() const { return panel_lanes(vector_lanes); }
  /// Returns the entries of a tile at a frequency.
  std::int64_t copies(std::int64_t frequency) const {
    if (!is_strided_map) return 1;
    return (frequency / 6 == 5 ? 4 : 1) * (frequency % 6 == 5 ? 4 : 1);
  }
  std::int64_t panel_stride() const { return entries * lanes(); }
  std::int64_t panel_stride(std::int64_t frequency) const {
    return copies(frequency) * panel_stride();
  }
  /// Returns the number of products of a tile.
  std::int64_t products() const { return is_strided_map ? 81 : frequencies; }
  std::size_t bytes() const {
    return static_cast<std::size_t>(products() * panels * panel_stride() + frequencies * gap) *
           sizeof(float);
  }
  float* at(std::int64_t frequency, std::int64_t panel, std::int64_t entry) const {
    const std::int64_t row = frequency / 6, column = frequency % 6;
    const std::int64_t before = !is_strided_map ? frequency : row * 9 + (row == 5 ? 4 : 1) * column;
    return data + before * panels * panel_stride() + frequency * gap +
           (panel * entries + entry) * copies(frequency) * lanes();
  }
};

/// The weights of one convolution, plain KCRS, as a direction uses them: sums run over `depth`
/// channels, and the results are computed for `panel_lanes` channels at a time.
struct Kernels {
  float* data = nullptr;
  std::int64_t depth = 0;
  std::int64_t depth_stride = 0, lane_stride = 0;  ///< floats from one channel to the next
  bool rotated = false;                            ///< by 180 degrees
};

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
