#pragma once

#include <cstdint>
#include <vector>

#include "../../feature_map.hpp"
#include "../onednn.hpp"
#include "kernels.hpp"

// Which rows and positions of one map a convolution combines with those of the other, and how many
// rows are worked on at a time.

namespace lockstep::backend::cpu::amx {

constexpr std::int64_t cell_bytes = cell_size * std::int64_t{sizeof(core::BFloat16)};

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t channel_blocks(const FeatureMap& map);
std::int64_t image_blocks(const FeatureMap& map);
std::int64_t row_bytes(const FeatureMap& map);  ///< of the cells of one row

/// Row `row` of the images of a block.
MapRow row_of(const FeatureMap& map, std::int64_t image_block, std::int64_t row);

/// For each position of the convolution's output along one axis: the positions of its input.
std::vector<AxisTaps> inputs_of_outputs(const ConvolutionSizes& sizes, std::int64_t outputs,
                                        std::int64_t inputs);
/// The reverse: for each position of the input, the positions of the output that it contributes to.
std::vector<AxisTaps> outputs_of_inputs(const ConvolutionSizes& sizes, std::int64_t outputs,
                                        std::int64_t inputs);

/// [first, last).
struct RowRange {
  std::int64_t first = 0, last = 0;
};
/// The range of input rows that a range of output rows needs.
RowRange needed(const std::vector<AxisTaps>& axis, RowRange rows);

/// The output's rows in bands, and how many rows of the input are in memory at a time. A row's
/// place is its number modulo `input_rows`, so that a band keeps the rows that it shares with the
/// previous one.
struct Bands {
  std::int64_t rows = 0;  ///< of the output in a band
  std::int64_t input_rows = 0;
};
struct BandLimits {
  std::int64_t cached_bytes = 0;  ///< of the rows of a band, if it has more than one output row
  std::int64_t fewest_bands = 1;  ///< if there are as many rows
};
/// Returns the largest bands within the limits, all of about the same size.
Bands make_bands(const std::vector<AxisTaps>& axis, std::int64_t input_row_bytes,
                 std::int64_t output_row_bytes, BandLimits limits);

}  // namespace lockstep::backend::cpu::amx
