// SPDX-License-Identifier: BSD-3-Clause
#include "f2x2_matrices.hpp"
#include "winograd_map_direction.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

/// F(2x2, 3x3) with values that are rounded to bfloat16.
class F2x2MapDirection final : public WinogradMapDirection {
 public:
  F2x2MapDirection(const Resources& resources, std::unique_ptr<CellRows> from, const FeatureMap& to,
                   const WeightMatrix& weights, bool is_rotated)
      : WinogradMapDirection(resources.kernels->instructions(), f2x2_name,
                             winograd_arithmetic(f2x2_sizes, to.shape, to.shape.pixels()),
                             f2x2_sizes, resources, std::move(from), to, weights, 0),
        is_rotated_(is_rotated) {}

 private:
  void convert_weights(std::int64_t from_block, std::int64_t to_block,
                       std::byte* weights) const override {
    kernels_.transform_weights(matrix_, from_block, to_block, is_rotated_,
                               reinterpret_cast<BFloat16*>(weights) + from_block * cell_size,
                               weight_stride());
  }

  void transform_patch(const TilePosition& tile, const PatchMemory& memory,
                       std::byte*) const override {
    auto* const to = reinterpret_cast<BFloat16*>(memory.cells);
    Patch patch(*from_, tile.image_block, to_.shape.height, tile.row - 1, tile.column - 1,
                f2x2_sizes.patch_size);
    for (std::int64_t block = 0; block < from_->blocks(); ++block, patch.move_blocks(1)) {
      PatchCells cells;
      std::ranges::copy(patch.cells(), cells.begin());
      kernels_.transform_input(cells, {0, tile.images * cell_channels},
                               to + block * tile.images * cell_channels,
                               frequency_stride(tile.images));
    }
  }

  void multiply(const TilePosition& tile, const PatchMemory& memory, const std::byte* weights,
                std::int64_t frequency, float* sums) const override {
    kernels_.multiply(
        CellProducts{.a = reinterpret_cast<const BFloat16*>(memory.cells) +
                          frequency * frequency_stride(tile.images),
                     .b = reinterpret_cast<const BFloat16*>(weights) + frequency * weight_stride(),
                     .a_stride = tile.images * cell_channels,
                     .b_stride = cell_size,
                     .count = from_->blocks(),
                     .rows = tile.images,
                     .sums = sums});
  }

  void write_tile(const PatchMemory&, std::int64_t, const float* sums,
                  const OutputTile& tile) const override {
    kernels_.transform_output(sums, sums_stride, tile);
  }

  bool is_rotated_;
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_f2x2_map_direction(const Resources& resources,
                                                              std::unique_ptr<CellRows> from,
                                                              const FeatureMap& to,
                                                              const WeightMatrix& weights,
                                                              bool is_rotated) {
  return std::make_unique<F2x2MapDirection>(resources, std::move(from), to, weights, is_rotated);
}

}  // namespace lockstep::backend::cpu::cells
