// SPDX-License-Identifier: BSD-3-Clause
#include "cell_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

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

std::string implementation_name(const Kernels& kernels, std::string_view algorithm,
                                const CellRows& rows) {
  return fmt::format("{}{} {}", kernels.instructions(), algorithm, rows.kind());
}

std::unique_ptr<CellRows> make_cell_rows(const FeatureMap& map) {
  return std::make_unique<RowsInPlace>(map);
}

std::unique_ptr<CellRows> make_patch_rows(const FeatureMap& source, const ConvolutionSizes& sizes,
                                          const Kernels& kernels) {
  return std::make_unique<PatchRows>(source, sizes, kernels);
}

}  // namespace lockstep::backend::cpu::cells
