// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../convolution_direction.hpp"
#include "kernels.hpp"

// The geometry of convolutions: which rows and positions of one map are combined with those of the
// other, how many rows are processed at a time, and how they are read as cells.

namespace lockstep::backend::cpu::cells {

constexpr std::int64_t cell_bytes = cell_size * std::int64_t{sizeof(core::BFloat16)};

/// Values that fill at least a cache line.
inline constexpr std::int64_t cache_line = 32;

/// Returns the number of images in a block of up to 32 of `images` images.
constexpr std::int64_t images_in_block(std::int64_t images, std::int64_t image_block) {
  return std::min(cell_images, images - image_block * cell_images);
}

/// Returns the tasks of the threads that compute a map; `most_row_parts`: parts of its rows. They
/// divide the blocks of channels as well if there are more threads than other tasks.
BlockTasks tasks_of(const FeatureMap& map, int threads, std::int64_t most_row_parts);

/// Returns one row of the pixels of a block of images and a block of channels.
MapRow output_row(const FeatureMap& map, std::int64_t image_block, std::int64_t channel_block,
                  std::int64_t row);
/// Returns true if the map is written with non-temporal stores, because it would not stay in the
/// caches.
bool is_streamed(const FeatureMap& map);

/// Returns, for each output position of the convolution along one axis, the contributing input
/// positions.
std::vector<AxisTaps> inputs_of_outputs(const ConvolutionSizes& sizes, std::int64_t outputs,
                                        std::int64_t inputs);
/// Returns, for each input position along one axis, the output positions to which it contributes.
std::vector<AxisTaps> outputs_of_inputs(const ConvolutionSizes& sizes, std::int64_t outputs,
                                        std::int64_t inputs);

/// Returns the range of input rows that a range of output rows needs.
Range needed(const std::vector<AxisTaps>& axis, Range rows);

/// Division of the output rows into bands, and the number of input rows in memory at a time. Row r
/// of the input is stored in slot r modulo `input_rows`, so that the rows that a band shares with
/// the previous one stay in memory.
struct Bands {
  std::int64_t rows = 0;  ///< of the output in a band; the last band may have fewer
  std::int64_t input_rows = 0;
  std::int64_t output_rows = 0;  ///< of all bands

  std::int64_t count() const { return ceil_div(output_rows, rows); }
  Range range(std::int64_t band) const {  ///< output rows of a band
    return {band * rows, std::min((band + 1) * rows, output_rows)};
  }
};
/// Returns the largest bands, all of about the same size, whose rows have at most `cached_bytes`
/// bytes, or have one output row each. There may be fewer than `fewest`, because all bands but the
/// last are equal.
Bands make_bands(const std::vector<AxisTaps>& axis, std::int64_t input_row_bytes,
                 std::int64_t output_row_bytes, std::int64_t cached_bytes, std::int64_t fewest = 1);

/// Reads the rows of a map as plain cells, for one block of 32 images at a time.
class CellRows {
 public:
  virtual ~CellRows() = default;

  std::int64_t pixels() const { return pixels_; }  ///< per row
  std::int64_t blocks() const { return blocks_; }  ///< of 32 channels
  std::int64_t cells() const { return pixels_ * blocks_; }
  std::int64_t bytes() const { return cells() * cell_bytes; }  ///< of a copied row
  virtual CellStrides strides(std::int64_t image_block) const = 0;

  /// Returns true if the map consists of cells, so that they are not copied.
  virtual bool in_place() const { return false; }
  /// Returns what the cells are, for the names of implementations.
  virtual std::string_view kind() const = 0;
  /// Returns the first cell of a row. The cells are those of the map, or are copied to `copy`,
  /// which has space for a row.
  virtual const core::BFloat16* row(std::int64_t image_block, std::int64_t row,
                                    core::BFloat16* copy) const = 0;

 protected:
  CellRows(std::int64_t pixels, std::int64_t blocks) : pixels_(pixels), blocks_(blocks) {}

 private:
  std::int64_t pixels_, blocks_;
};

/// Returns the name that is shown to users of an implementation that reads `rows`.
std::string implementation_name(std::string_view instructions, std::string_view algorithm,
                                const CellRows& rows);

/// Returns the rows of a map whose layout is `blocked32x32`. The map must outlive them.
std::unique_ptr<CellRows> make_cell_rows(const FeatureMap& map);

/// Returns the rows of the patches of a planar source (im2col): one pixel per output pixel of the
/// convolution, whose channels (input channel, row and column of the kernel) are the inputs of the
/// output pixel; those outside the map are 0. With patches, a convolution of few input channels is
/// a 1x1 convolution that fills its tiles. The source and the kernels must outlive them.
std::unique_ptr<CellRows> make_patch_rows(const FeatureMap& source, const ConvolutionSizes& sizes,
                                          const Kernels& kernels);

}  // namespace lockstep::backend::cpu::cells
