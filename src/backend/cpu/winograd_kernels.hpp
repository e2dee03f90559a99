#pragma once

#include <cstddef>
#include <cstdint>

#include "../feature_map.hpp"

// The arithmetic of Winograd's minimal filtering F(4x4, 3x3) (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2016, arXiv:1509.09308) for 3x3 convolutions of stride 1 with one
// pixel of padding. A 6x6 patch of the input gives a 4x4 tile of the output by 36 products per pair
// of channels instead of 144:
//
//   forward           Y  = At [ (G g Gt) * (Bt d B) ] A       summed over input channels
//   weight gradient   dg = Gt [ (A dY At) * (Bt d B) ] G      summed over tiles, the exact adjoint
//   input gradient    forward on dY with the kernel rotated and its channels swapped
//
// The products are taken at the points 0, +-1/sqrt(2), +-sqrt(2) and infinity, whose rounding error
// (1e-6 of a tensor's norm in float32) is a third of that of the customary 0, +-1, +-2, infinity.
//
// Everything transformed is float32, and stands in panels: for each of the 36 products
// ("frequencies") matrices of [panel][entry][lane], channel = panel * panel_lanes + lane, so that
// the matrix products read consecutive memory. Feature maps may be float32 or bfloat16, in any
// layout whose lanes are whole vectors.

namespace lockstep::backend::cpu::winograd {

inline constexpr std::int64_t frequencies = 36;
inline constexpr std::int64_t tile_size = 4;

/// Floats per vector register that the kernels use for maps with so many lanes here: 16 or 8.
int vector_lanes(std::int64_t map_lanes);
/// Channels per panel: two vectors.
constexpr std::int64_t panel_lanes(int vector_lanes) { return 2 * vector_lanes; }

/// The 4x4 tiles that cover a batch of maps, image after image, row after row.
struct Tiling {
  std::int64_t rows = 0, columns = 0;  ///< of tiles in one image
  std::int64_t count = 0;              ///< in the batch
};
Tiling tiling_of(const FeatureMap& map);

/// Consecutive tiles of a batch.
struct TileRange {
  std::int64_t first = 0, count = 0;
};

/// One matrix of [panel][entry][lane] for each frequency. An entry is a tile or an input channel.
struct Panels {
  float* data = nullptr;
  std::int64_t entries = 0;  ///< per panel
  std::int64_t panels = 0;
  int vector_lanes = 8;

  std::int64_t lanes() const { return panel_lanes(vector_lanes); }
  std::int64_t panel_stride() const { return entries * lanes(); }
  /// A cache line more than the matrix, else all frequencies of an entry share one cache set.
  std::int64_t frequency_stride() const { return panels * panel_stride() + 16; }
  std::size_t bytes() const {
    return static_cast<std::size_t>(frequencies * frequency_stride()) * sizeof(float);
  }
  float* at(std::int64_t frequency, std::int64_t panel, std::int64_t entry) const {
    return data + frequency * frequency_stride() + panel * panel_stride() + entry * lanes();
  }
};

/// The weights of one convolution, plain KCRS, as a direction uses them: from `depth` channels,
/// which are summed over, to the channels of `panel_lanes` at a time.
struct Kernels {
  float* data = nullptr;
  std::int64_t depth = 0;
  std::int64_t depth_stride = 0, lane_stride = 0;  ///< floats from one channel to the next
  bool rotated = false;                            ///< by 180 degrees
};

/// Bt d B of tiles `range` of a map's channels, into entries 0, 1, ... of `to`.
void transform_input(const FeatureMap& map, Tiling tiling, TileRange range, const Panels& to,
                     std::int64_t first_entry);
/// A dY At likewise. `sums`, unless null: the sum over the tiles is added to it per channel.
void transform_gradient(const FeatureMap& map, Tiling tiling, TileRange range, const Panels& to,
                        std::int64_t first_entry, float* sums);
/// G g Gt of the kernels from every depth channel to the channels of panel `panel`, into a single
/// panel with an entry per depth channel.
void transform_weights(const Kernels& kernels, std::int64_t panel, const Panels& to);
/// At m A of a single panel with an entry per tile, into the channels of panel `panel` of the map.
/// `bias`: one per channel of the map, or null.
void transform_output(const Panels& from, const FeatureMap& map, Tiling tiling, TileRange range,
                      std::int64_t panel, const float* bias);
/// Gt u G of a single panel whose entries are depth channels `first_depth`, ..., to or onto the
/// kernels' gradient.
void transform_weight_gradient(const Panels& from, const Kernels& kernels, std::int64_t first_depth,
                               std::int64_t panel, bool accumulate);

/// For one frequency, c[row][lane] = sum over channels of a[channel][row] * b[channel][lane]: rows
/// are entries `first_entry`, ... of a, which has channels in panels; b and c are single panels.
void multiply(const Panels& a, std::int64_t first_entry, const Panels& b, const Panels& c,
              std::int64_t rows, std::int64_t frequency);
/// For one frequency, the outer products summed over the first `entries` entries of both:
/// c[lane of a][lane of b] += a[entry][lane] * b[entry][lane], into entries `c_entry`, ... of the
/// single panel c.
void multiply_transposed(const Panels& a, std::int64_t a_panel, const Panels& b,
                         std::int64_t b_panel, const Panels& c, std::int64_t c_entry,
                         std::int64_t entries, std::int64_t frequency);

}  // namespace lockstep::backend::cpu::winograd
