// SPDX-License-Identifier: BSD-3-Clause
#include "geometry.hpp"

#include <algorithm>
#include <limits>

namespace lockstep::backend::cpu::cells {

BlockTasks tasks_of(const FeatureMap& map, int threads, std::int64_t most_row_parts) {
  return {map.images, cell_images, threads, most_row_parts, map.blocks()};
}

MapRow output_row(const FeatureMap& map, std::int64_t image_block, std::int64_t channel_block,
                  std::int64_t row) {
  const std::int64_t pixel_stride = map.pixel_stride(image_block);
  return {.first = map.as<core::BFloat16>() + map.plane_offset(image_block, channel_block) +
                   row * map.shape.width * pixel_stride,
          .pixel_stride = pixel_stride,
          .images = map.images_in_block(image_block),
          .pixels = map.shape.width};
}

bool is_streamed(const FeatureMap& map) {
  constexpr std::size_t smallest = 4 << 20;
  return map.bytes() > smallest;
}

std::vector<AxisTaps> inputs_of_outputs(const ConvolutionSizes& sizes, std::int64_t outputs,
                                        std::int64_t inputs) {
  std::vector<AxisTaps> axis(static_cast<std::size_t>(outputs));
  for (std::int64_t output = 0; output < outputs; ++output) {
    AxisTaps& taps = axis[static_cast<std::size_t>(output)];
    for (std::int64_t tap = 0; tap < sizes.kernel; ++tap) {
      const std::int64_t input = output * sizes.stride - sizes.padding + tap;
      if (input >= 0 && input < inputs)
        taps.taps[static_cast<std::size_t>(taps.count++)] = {input, tap};
    }
  }
  return axis;
}

std::vector<AxisTaps> outputs_of_inputs(const ConvolutionSizes& sizes, std::int64_t outputs,
                                        std::int64_t inputs) {
  std::vector<AxisTaps> axis(static_cast<std::size_t>(inputs));
  const std::vector<AxisTaps> forward = inputs_of_outputs(sizes, outputs, inputs);
  for (std::int64_t output = 0; output < outputs; ++output) {
    const AxisTaps& from = forward[static_cast<std::size_t>(output)];
    for (std::int64_t i = 0; i < from.count; ++i) {
      const AxisTap& tap = from.taps[static_cast<std::size_t>(i)];
      AxisTaps& to = axis[static_cast<std::size_t>(tap.position)];
      to.taps[static_cast<std::size_t>(to.count++)] = {output, tap.tap};
    }
  }
  return axis;
}

Range needed(const std::vector<AxisTaps>& axis, Range rows) {
  Range range{.first = std::numeric_limits<std::int64_t>::max(), .last = 0};
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const AxisTaps& taps = axis[static_cast<std::size_t>(row)];
    for (std::int64_t i = 0; i < taps.count; ++i) {
      const std::int64_t position = taps.taps[static_cast<std::size_t>(i)].position;
      range.first = std::min(range.first, position);
      range.last = std::max(range.last, position + 1);
    }
  }
  return range.last == 0 ? Range{} : range;
}

Range Bands::range(std::int64_t band) const {
  return {band * rows, std::min((band + 1) * rows, output_rows)};
}

namespace {

std::int64_t most_input_rows(const std::vector<AxisTaps>& axis, std::int64_t rows) {
  const auto all = static_cast<std::int64_t>(axis.size());
  std::int64_t most = 1;
  for (std::int64_t first = 0; first < all; first += rows) {
    const Range range = needed(axis, {first, std::min(first + rows, all)});
    most = std::max(most, range.last - range.first);
  }
  return most;
}

}  // namespace

Bands make_bands(const std::vector<AxisTaps>& axis, std::int64_t input_row_bytes,
                 std::int64_t output_row_bytes, BandLimits limits) {
  const auto all = static_cast<std::int64_t>(axis.size());
  const auto fits = [&](std::int64_t rows) {
    return most_input_rows(axis, rows) * input_row_bytes + rows * output_row_bytes <=
           limits.cached_bytes;
  };
  std::int64_t bands = std::clamp<std::int64_t>(limits.fewest_bands, 1, all);
  std::int64_t rows = ceil_div(all, bands);
  while (rows > 1 && !fits(rows)) rows = ceil_div(all, ++bands);
  return {rows, most_input_rows(axis, rows), all};
}

}  // namespace lockstep::backend::cpu::cells
