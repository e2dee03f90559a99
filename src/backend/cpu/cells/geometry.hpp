// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../convolution_direction.hpp"
#include "kernels.hpp"

// The geometry of convolutions: which rows and positions of one map are combined with those of the
// other, and how many rows are processed at a time.

namespace lockstep::backend::cpu::cells {

constexpr std::int64_t cell_bytes = cell_size * std::int64_t{sizeof(core::BFloat16)};

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
  Range range(std::int64_t band) const;  ///< output rows of a band
};
struct BandLimits {
  std::int64_t cached_bytes = 0;  ///< limit for the rows of a band with several output rows
  /// Wanted number of bands. There may be fewer, because all bands but the last are equal.
  std::int64_t fewest_bands = 1;
};
/// Returns the largest bands within the limits, all of about the same size.
Bands make_bands(const std::vector<AxisTaps>& axis, std::int64_t input_row_bytes,
                 std::int64_t output_row_bytes, BandLimits limits);

}  // namespace lockstep::backend::cpu::cells
