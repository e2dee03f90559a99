// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "../fused_statistics.hpp"
#include "../kernels/division.hpp"
#include "lockstep/core/data_type.hpp"

// Products of bfloat16 cells for convolutions, with float32 accumulation. A cell holds one pixel of
// 32 images and 32 channels, 2 KB. Because the rows of a cell are different images at the same
// pixel, padding, stride and borders are the same for a whole cell, and every cell is contiguous.
// The cells of the last images of a batch may have fewer images: their first rows.
//
//   plain cell        [32 images][32 channels]
//   interleaved cell  [2 halves of the channels][16 pairs of images][16 channels][2 images]
//   transposed cell   [32 channels][32 images]
//   weight cell       [2 halves of the columns][16 pairs of rows][16 columns][2 rows], for one tap
//
// The rows of a weight cell are the channels that are summed over.

namespace lockstep::backend::cpu::cells {

constexpr std::int64_t cell_images = 32;
constexpr std::int64_t cell_channels = 32;
constexpr std::int64_t cell_size = cell_images * cell_channels;  ///< values
static_assert(PartialSums::channels == cell_channels);

/// One row (of pixels) of a map in layout `blocked32x32`, for up to 32 images and 32 channels.
struct MapRow {
  core::BFloat16* first = nullptr;  ///< first image, first pixel, first channel
  std::int64_t pixel_stride = 0;    ///< values from one pixel to the next
  std::int64_t images = 0;          ///< at most 32
  std::int64_t pixels = 0;
};

/// The addresses of the plain cells of a row, relative to that of its first cell.
struct CellStrides {
  std::int64_t pixel = 0;  ///< values from one pixel to the next
  std::int64_t block = 0;  ///< values from one block of channels to the next
};

/// Cells that are read soon: `blocks` blocks of `block_lines` contiguous cache lines. A row
/// prefetches the lines [lines.first, lines.last) of them, counted over all blocks.
struct NextCells {
  static constexpr std::int64_t line = 64 / sizeof(core::BFloat16);  ///< values

  const core::BFloat16* first = nullptr;
  std::int64_t block_stride = 0;  ///< values from one block to the next
  std::int64_t block_lines = 0;
  Range lines;
};

/// A position along one axis that contributes to an output position through one tap.
struct AxisTap {
  std::int64_t position = 0;
  std::int64_t tap = 0;
};
/// All contributions to one output position: at most 3, because the kernels are 1x1 and 3x3.
struct AxisTaps {
  std::array<AxisTap, 3> taps;
  std::int64_t count = 0;
};

/// A matrix of weights for each tap: the value at (i, column) is flat[i * row_stride + column *
/// column_stride + tap]. Products are summed over i.
struct WeightMatrix {
  const float* flat = nullptr;
  std::int64_t row_stride = 0, column_stride = 0;
  std::int64_t rows = 0, columns = 0;
  std::int64_t kernel = 0;  ///< 1 or 3: its rows and columns

  std::int64_t taps() const { return kernel * kernel; }
  /// Returns the numbers of blocks of 32 rows and of 32 columns.
  std::int64_t row_blocks() const { return ceil_div(rows, cell_channels); }
  std::int64_t column_blocks() const { return ceil_div(columns, cell_channels); }
  struct Block {
    std::int64_t row, column;
  };
  /// Returns the pair of blocks that is at position `index` in the order of memory.
  Block block_at(std::int64_t index) const {
    return row_stride > column_stride ? Block{index / column_blocks(), index % column_blocks()}
                                      : Block{index % row_blocks(), index / row_blocks()};
  }
};

/// One row of the output of a convolution, or of the gradient of its input, for 32 channels.
struct OutputRow {
  /// Plain cells of one input row, and the row of the kernel that is applied to it.
  struct Input {
    const core::BFloat16* cells = nullptr;
    std::int64_t tap_row = 0;
  };
  std::array<Input, 3> inputs;
  std::int64_t input_count = 0;
  CellStrides strides;                             ///< of all inputs
  const std::vector<AxisTaps>* columns = nullptr;  ///< one entry per output pixel
  const core::BFloat16* weights = nullptr;         ///< weight cells (tap, block of input channels)
  std::int64_t kernel = 0;
  std::int64_t blocks = 0;      ///< blocks of input channels
  const float* bias = nullptr;  ///< 32 values, or null
  MapRow to;
  bool streams = false;               ///< write with non-temporal stores
  PartialSums* statistics = nullptr;  ///< the values that are written are added; or null
  NextCells next;
};

/// Sums for the gradient of the weights that connect a block of 32 output channels with half a
/// block of input channels, through one row of the kernel.
struct GradientRows {
  struct Rows {
    const core::BFloat16* gradient = nullptr;  ///< transposed cells (pixel, block), at the block
    const core::BFloat16* source = nullptr;    ///< interleaved cells (pixel, block), at the half
  };
  const std::vector<Rows>* rows = nullptr;
  const std::vector<AxisTaps>* columns = nullptr;  ///< one entry per pixel of a gradient row
  std::int64_t kernel = 0;
  std::int64_t gradient_blocks = 0, source_blocks = 0;  ///< cells per pixel
  std::int64_t images = cell_images;  ///< in the cells; the values of the others are 0
  bool adds = false;                  ///< adds to the values in `sums`; otherwise replaces them
  float* sums = nullptr;  ///< tiles [column of the kernel][2 halves of the output channels]
};

/// Products of two sequences of cells: the sums of A_i B_i over i. A_i is a plain or a transposed
/// cell, B_i a weight cell or an interleaved cell; each has 32 rows and 32 columns.
struct CellProducts {
  const core::BFloat16* a = nullptr;
  const core::BFloat16* b = nullptr;
  std::int64_t a_stride = 0, b_stride = 0;  ///< values from one cell to the next
  std::int64_t count = 0;
  std::int64_t rows = 32;   ///< of A; the sums of the others are undefined
  std::int64_t depth = 32;  ///< rows of B; the values of the others, and of the columns of A, are 0
  bool adds = false;        ///< adds to the values in `sums`; otherwise replaces them
  float* sums = nullptr;    ///< tiles [2 halves of the rows of A][2 halves of the columns of B]
};

/// The 4x4 input pixels of an output tile of Winograd's algorithm, or the 2x2 pixels of its
/// gradient. Cells of pixels outside the map are `zero_cell`.
using PatchCells = std::array<const core::BFloat16*, 16>;
using GradientPatchCells = std::array<const core::BFloat16*, 4>;
extern const core::BFloat16 zero_cell[cell_size];

/// The pixels of one output tile of Winograd's algorithm, for up to 32 images and 32 channels.
struct OutputTile {
  MapRow first_row;  ///< 1 or 2 pixels
  std::int64_t row_stride = 0;
  std::int64_t rows = 0;              ///< 1 or 2
  const float* bias = nullptr;        ///< 32 values, or null
  bool streams = false;               ///< write with non-temporal stores
  PartialSums* statistics = nullptr;  ///< the values that are written are added; or null
};

class Int16Kernels;
enum class Int16Scheme;

/// Arithmetic of the convolutions, with one instruction set. `images` is the number of images of a
/// plain cell. The memory of the other rows may be read, but their values have no effect. The
/// functions that this class defines run on every processor.
class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual std::string_view instructions() const = 0;  ///< name shown to users
  /// Returns the kernels with 16-bit integers that belong to these.
  virtual const Int16Kernels& int16(Int16Scheme scheme) const;

  /// Each thread must call `enter` before and `leave` after the functions below.
  virtual void enter() const = 0;
  virtual void leave() const = 0;

  // In interleaved and transposed cells, images that do not exist become zeros.
  virtual void interleave(const core::BFloat16* plain, std::int64_t images,
                          core::BFloat16* interleaved) const;
  virtual void transpose(const core::BFloat16* plain, std::int64_t images,
                         core::BFloat16* transposed) const;
  /// Adds the values of all images of a plain cell to sums[channel].
  virtual void add_images(const core::BFloat16* plain, std::int64_t images, float* sums) const;

  /// Writes the weight cells of one block of 32 rows and one of 32 columns, for tap t to `cells` +
  /// t * `tap_stride`.
  virtual void pack_weights(const WeightMatrix& weights, std::int64_t row_block,
                            std::int64_t column_block, core::BFloat16* cells,
                            std::int64_t tap_stride) const;

  virtual void multiply(const OutputRow& row) const = 0;
  virtual void multiply(const GradientRows& rows) const = 0;
  virtual void multiply(const CellProducts& products) const = 0;

  // Transforms of Winograd's algorithm (f2x2_matrices.hpp). Frequency f is at `to` or `from` +
  // f * `stride`.

  // Transforms of a patch of the input and of the output gradient. The first transforms only the
  // values [values.first, values.last) of each cell; both bounds are multiples of 32.
  virtual void transform_input(const PatchCells& patch, Range values, core::BFloat16* to,
                               std::int64_t stride) const;
  virtual void transform_gradient(const GradientPatchCells& patch, core::BFloat16* to,
                                  std::int64_t stride) const;
  /// Transforms weights as `pack_weights` writes them. `is_rotated`: the 3x3 kernels are rotated by
  /// 180 degrees first.
  virtual void transform_weights(const WeightMatrix& weights, std::int64_t row_block,
                                 std::int64_t column_block, bool is_rotated, core::BFloat16* to,
                                 std::int64_t stride) const;
  /// Transforms the sums of all frequencies to the output, and adds the bias.
  virtual void transform_output(const float* from, std::int64_t stride,
                                const OutputTile& tile) const;
  /// Transforms one row of the sums of all frequencies, for 16 input channels, to the gradient of
  /// the weights: writes [input channel][tap] for the first `channels` input channels.
  virtual void transform_weight_gradient(const float* from, std::int64_t stride,
                                         std::int64_t channels, float* to) const;

  /// Rounds sums [2 halves of the images][2 halves of the channels][16][16] to bfloat16 and writes
  /// them to one pixel of the images of `row`. `streams`: use non-temporal stores.
  static void write_pixel(const float* sums, const MapRow& row, std::int64_t offset, bool streams,
                          PartialSums* statistics);
  /// Makes non-temporal stores visible to other threads.
  static void finish_streams() {}
};

/// Returns kernels with the tiles of AMX; null if this processor has none or this process may not
/// use them.
std::unique_ptr<Kernels> make_amx_kernels();
/// Returns kernels with the dot products of AVX512-BF16 (VDPBF16PS); null if this processor lacks
/// them.
std::unique_ptr<Kernels> make_avx512_kernels();
/// Returns kernels that compute the same bits as those with AMX on any processor. They are slow and
/// meant for tests.
std::unique_ptr<Kernels> make_emulated_kernels();

}  // namespace lockstep::backend::cpu::cells
