#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "../division.hpp"
#include "lockstep/core/data_type.hpp"

// Products of bfloat16 tiles for convolutions, with float32 accumulation. Memory is organised in
// cells: a cell holds one pixel of 32 images and 32 channels, 2 KB. Because the rows of a tile are
// different images at the same pixel, padding, stride and borders are the same for a whole tile,
// and every tile is contiguous.
//
//   plain cell        [32 images][32 channels]
//   interleaved cell  [2 halves of the channels][16 pairs of images][16 channels][2 images]
//   transposed cell   [32 channels][32 images]
//   weight cell       [2 halves of the columns][16 pairs of rows][16 columns][2 rows], for one tap
//
// The rows of a weight cell are the channels that are summed over.

namespace lockstep::backend::cpu::amx {

constexpr std::int64_t cell_images = 32;
constexpr std::int64_t cell_channels = 32;
constexpr std::int64_t cell_size = cell_images * cell_channels;  ///< values

/// One row (of pixels) of a map, for up to 32 images and consecutive channels.
struct MapRow {
  core::BFloat16* first = nullptr;  ///< first image, first pixel, first channel
  std::int64_t image_stride = 0;    ///< values from one image to the next
  std::int64_t pixel_stride = 0;    ///< values from one pixel to the next
  std::int64_t images = 0;          ///< at most 32
  std::int64_t pixels = 0;
  std::int64_t channels = 0;
};

/// The addresses of the plain cells of a row, relative to that of its first cell.
struct CellStrides {
  std::int64_t pixel = 0;  ///< values from one pixel to the next
  std::int64_t block = 0;  ///< values from one block of channels to the next
};

/// Cells that are read soon: `blocks` blocks of `block_lines` contiguous cache lines. A row
/// prefetches the lines [lines.first, lines.last) of them, counted over all blocks.
struct NextCells {
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
  std::int64_t rows = 0, columns = 0, taps = 0;
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
  MapRow to;                    ///< with those of the 32 channels that exist
  bool streams = false;         ///< write with non-temporal stores
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
  bool adds = false;      ///< adds to the values in `sums`; otherwise replaces them
  float* sums = nullptr;  ///< tiles [column of the kernel][2 halves of the output channels]
};

/// Arithmetic of the convolutions, with the tiles of the processor or with emulated ones.
class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual bool is_emulated() const = 0;

  /// Each thread must call `enter` before and `leave` after the functions below.
  virtual void enter() const = 0;
  virtual void leave() const = 0;

  /// Writes the plain cells (pixel, channel block) of a row of a channels-last map; images and
  /// channels that do not exist become zeros.
  virtual void pack(const MapRow& row, core::BFloat16* cells) const = 0;
  virtual void interleave(const core::BFloat16* plain, core::BFloat16* interleaved) const = 0;
  virtual void transpose(const core::BFloat16* plain, core::BFloat16* transposed) const = 0;
  /// Adds the values of all images of a plain cell to sums[channel].
  virtual void add_images(const core::BFloat16* plain, float* sums) const = 0;

  /// Writes the weight cells of one block of 32 rows and one of 32 columns, for tap t to `cells` +
  /// t * `tap_stride`.
  virtual void pack_weights(const WeightMatrix& weights, std::int64_t row_block,
                            std::int64_t column_block, core::BFloat16* cells,
                            std::int64_t tap_stride) const = 0;

  virtual void multiply(const OutputRow& row) const = 0;
  virtual void multiply(const GradientRows& rows) const = 0;
};

/// Returns null if this processor has no tiles or this process may not use them.
std::unique_ptr<Kernels> make_hardware_kernels();
std::unique_ptr<Kernels> make_emulated_kernels();
/// Returns the hardware kernels if the processor has AMX, otherwise the emulated ones, which are
/// slow and meant for tests.
std::unique_ptr<Kernels> make_kernels();

}  // namespace lockstep::backend::cpu::amx
