// SPDX-License-Identifier: BSD-3-Clause
#include "geometry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

BlockTasks tasks_of(const FeatureMap& map, int threads, std::int64_t most_row_parts) {
  return {map.images, cell_images, threads, most_row_parts, map.blocks()};
}

MapRow output_row(const FeatureMap& map, std::int64_t image_block, std::int64_t channel_block,
                  std::int64_t row) {
  const std::int64_t pixel_stride = map.pixel_stride(image_block);
  return {.first = map.as<BFloat16>() + map.plane_offset(image_block, channel_block) +
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

/// Rows of a map in layout `blocked32x32`.
class RowsInPlace : public CellRows {
 public:
  explicit RowsInPlace(const FeatureMap& map)
      : CellRows(map.shape.width, map.blocks()), map_(map) {}

  bool in_place() const override { return true; }
  CellStrides strides(std::int64_t image_block) const override {
    return {.pixel = map_.pixel_stride(image_block), .block = map_.plane(image_block)};
  }
  std::string_view kind() const override { return "blocked maps"; }
  const BFloat16* row(std::int64_t image_block, std::int64_t row, BFloat16*) const override {
    return map_.as<BFloat16>() + map_.plane_offset(image_block, 0) +
           row * map_.shape.width * map_.pixel_stride(image_block);
  }

 private:
  const FeatureMap& map_;
};

/// Rows of the patches of a planar map, copied to cells (pixel, block).
class PatchRows : public CellRows {
 public:
  PatchRows(const FeatureMap& source, const ConvolutionSizes& sizes, const Kernels& kernels)
      : CellRows(sizes.out_width,
                 ceil_div(sizes.in_channels * sizes.kernel * sizes.kernel, cell_channels)),
        source_(source),
        sizes_(sizes),
        kernels_(kernels) {}

  CellStrides strides(std::int64_t) const override {
    return {.pixel = blocks() * cell_size, .block = cell_size};
  }
  std::string_view kind() const override { return "patches"; }
  const BFloat16* row(std::int64_t image_block, std::int64_t row, BFloat16* copy) const override {
    const std::int64_t first = image_block * cell_images;
    const std::int64_t images = images_in_block(source_.images, image_block);
    for (std::int64_t image = 0; image < images; ++image) {
      for (std::int64_t block = 0; block < blocks(); ++block) {
        for (std::int64_t pixel = 0; pixel < pixels(); pixel += cell_channels)
          copy_pixels(first + image, row, block, pixel, copy + image * cell_channels);
      }
    }
    return copy;
  }

 private:
  /// Copies the channels of one block, at up to 32 pixels from `pixel` on, to the cells at `to`.
  /// The source has the pixels of one channel next to each other, the cells the channels of one
  /// pixel; a transpose exchanges them.
  void copy_pixels(std::int64_t image, std::int64_t row, std::int64_t block, std::int64_t pixel,
                   BFloat16* to) const {
    alignas(64) BFloat16 by_channel[cell_size] = {};
    alignas(64) BFloat16 by_pixel[cell_size];
    const std::int64_t count = std::min(cell_channels, pixels() - pixel);
    const std::int64_t taps = sizes_.kernel * sizes_.kernel;
    const std::int64_t first = block * cell_channels;
    const std::int64_t channels = std::min(cell_channels, sizes_.in_channels * taps - first);
    for (std::int64_t i = 0; i < channels; ++i) {
      const std::int64_t tap = (first + i) % taps;
      const std::int64_t y = row * sizes_.stride - sizes_.padding + tap / sizes_.kernel;
      if (y < 0 || y >= sizes_.in_height) continue;
      const BFloat16* const from =
          source_.as<BFloat16>() + source_.offset(image, (first + i) / taps) + y * sizes_.in_width;
      copy_axis(from, pixel * sizes_.stride - sizes_.padding + tap % sizes_.kernel, count,
                by_channel + i * cell_channels);
    }
    kernels_.transpose(by_channel, cell_images, by_pixel);
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(to + ((pixel + i) * blocks() + block) * cell_size, by_pixel + i * cell_channels,
                  cell_channels * sizeof(BFloat16));
  }

  /// Copies `count` values from x, x + stride, ... of a row; values outside the row are not
  /// written.
  void copy_axis(const BFloat16* row, std::int64_t x, std::int64_t count, BFloat16* to) const {
    const std::int64_t begin =
        std::clamp<std::int64_t>(ceil_div(std::max<std::int64_t>(-x, 0), sizes_.stride), 0, count);
    const std::int64_t end = std::clamp(
        ceil_div(std::max<std::int64_t>(sizes_.in_width - x, 0), sizes_.stride), begin, count);
    if (sizes_.stride == 1) {
      std::copy(row + x + begin, row + x + end, to + begin);
    } else {
      for (std::int64_t i = begin; i < end; ++i) to[i] = row[x + i * sizes_.stride];
    }
  }

  const FeatureMap& source_;
  ConvolutionSizes sizes_;
  const Kernels& kernels_;
};

}  // namespace

Bands make_bands(const std::vector<AxisTaps>& axis, std::int64_t input_row_bytes,
                 std::int64_t output_row_bytes, std::int64_t cached_bytes, std::int64_t fewest) {
  const auto all = static_cast<std::int64_t>(axis.size());
  const auto fits = [&](std::int64_t rows) {
    return most_input_rows(axis, rows) * input_row_bytes + rows * output_row_bytes <= cached_bytes;
  };
  std::int64_t bands = std::clamp<std::int64_t>(fewest, 1, all);
  std::int64_t rows = ceil_div(all, bands);
  while (rows > 1 && !fits(rows)) rows = ceil_div(all, ++bands);
  return {rows, most_input_rows(axis, rows), all};
}

std::string implementation_name(std::string_view instructions, std::string_view algorithm,
                                const CellRows& rows) {
  return fmt::format("{}{} {}", instructions, algorithm, rows.kind());
}

std::unique_ptr<CellRows> make_cell_rows(const FeatureMap& map) {
  return std::make_unique<RowsInPlace>(map);
}

std::unique_ptr<CellRows> make_patch_rows(const FeatureMap& source, const ConvolutionSizes& sizes,
                                          const Kernels& kernels) {
  return std::make_unique<PatchRows>(source, sizes, kernels);
}

}  // namespace lockstep::backend::cpu::cells
