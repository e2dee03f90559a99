// SPDX-License-Identifier: BSD-3-Clause
#include "f2x2_matrices.hpp"
#include "tiles.hpp"
#include "winograd_weights_direction.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

/// F(2x2, 3x3) with values that are rounded to bfloat16.
class F2x2WeightsDirection final : public WinogradWeightsDirection {
 public:
  F2x2WeightsDirection(const Resources& resources, const ConvolutionSizes& sizes,
                       std::unique_ptr<CellRows> source, std::unique_ptr<CellRows> destination)
      : WinogradWeightsDirection(resources.kernels->instructions(), f2x2_name, f2x2_sizes,
                                 resources, sizes, std::move(source), std::move(destination)) {}

 private:
  void transform(const TilePosition& tile, std::int64_t to, const Group& group) const override {
    transform_source(tile, to, group);
    transform_gradient(tile, to, group);
  }

  void transform_source(const TilePosition& tile, std::int64_t to, const Group& group) const {
    Patch patch = source_patch(tile);
    for (std::int64_t block = 0; block < source_->blocks(); ++block, patch.move_blocks(1)) {
      PatchCells cells;
      std::ranges::copy(interleaved(patch, tile.images).cells(), cells.begin());
      BFloat16* const cells_to = cells_of<BFloat16>(group.source, block) + to * cell_size;
      for (std::int64_t half = 0; half < cell_size; half += tile_halves) {
        const Range pairs{half, half + ceil_div(tile.images, 2) * 32};  // the others are zeros
        kernels_.transform_input(cells, pairs, cells_to, frequency_stride());
        for (std::int64_t f = 0; f < frequencies; ++f)
          std::fill(cells_to + f * frequency_stride() + pairs.last,
                    cells_to + f * frequency_stride() + half + tile_halves, BFloat16{});
      }
    }
  }

  void transform_gradient(const TilePosition& tile, std::int64_t to, const Group& group) const {
    Patch patch = gradient_patch(tile);
    for (std::int64_t block = 0; block < destination_->blocks(); ++block, patch.move_blocks(1)) {
      add_patch_to_bias(block, patch, tile.images);
      GradientPatchCells cells;
      std::ranges::copy(transposed(patch, tile.images).cells(), cells.begin());
      kernels_.transform_gradient(cells, cells_of<BFloat16>(group.gradient, block) + to * cell_size,
                                  frequency_stride());
    }
  }

  void multiply(const TileList& list, Range tiles, std::int64_t pair, Range part,
                const Group& group) const override {
    const std::int64_t count = tiles.last - tiles.first;
    const std::int64_t complete = std::clamp<std::int64_t>(list.complete - tiles.first, 0, count);
    const BFloat16* const a = cells_of<BFloat16>(group.gradient, pair / source_->blocks());
    const BFloat16* const b = cells_of<BFloat16>(group.source, pair % source_->blocks());
    for (std::int64_t f = part.first; f < part.last; ++f) {
      CellProducts products{.a = a + f * frequency_stride(),
                            .b = b + f * frequency_stride(),
                            .a_stride = cell_size,
                            .b_stride = cell_size,
                            .count = complete,
                            .adds = tiles.first > 0,
                            .sums = sums_of(group, pair) + f * cell_size};
      if (complete > 0) kernels_.multiply(products);
      if (complete == count) continue;
      products.a += complete * cell_size;
      products.b += complete * cell_size;
      products.count = count - complete;
      products.depth = sizes_.images % cell_images;
      products.adds = tiles.first + complete > 0;
      kernels_.multiply(products);
    }
  }

  void transform_weight_gradient(const float* from, std::int64_t channels,
                                 float* to) const override {
    kernels_.transform_weight_gradient(from, cell_size, channels, to);
  }
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_f2x2_weights_direction(
    const Resources& resources, const ConvolutionSizes& sizes, std::unique_ptr<CellRows> source,
    std::unique_ptr<CellRows> destination) {
  return std::make_unique<F2x2WeightsDirection>(resources, sizes, std::move(source),
                                                std::move(destination));
}

}  // namespace lockstep::backend::cpu::cells
