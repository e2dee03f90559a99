// SPDX-License-Identifier: BSD-3-Clause
#include "int16_kernels.hpp"
#include "winograd_map_direction.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

/// F(4x4, 3x3) with values that are rounded to 16-bit integers. A sum of products is a dot product
/// over the channels of `from`: each image of a patch, and each channel of `to`, has one scale.
class Int16MapDirection final : public WinogradMapDirection {
 public:
  Int16MapDirection(const Resources& resources, std::unique_ptr<CellRows> from,
                    const FeatureMap& to, const WeightMatrix& weights, bool is_rotated)
      : WinogradMapDirection(resources.kernels->int16().instructions(), int16_name, f4x4_sizes,
                             resources, std::move(from), to, weights, factors_bytes),
        int16_(resources.kernels->int16()),
        is_rotated_(is_rotated) {}

 private:
  static constexpr std::int64_t lanes = cell_channels / 2;
  /// The inverse scales of the images of a patch, after its cells.
  static constexpr std::size_t factors_bytes = sizeof(float) * cell_images;
  /// The scales of the values of a patch: [image][lane].
  std::size_t scratch_bytes() const override { return sizeof(float) * cell_images * lanes; }

  /// The scales of the channels of `to`, and their inverses.
  std::size_t shared_bytes() const override {
    return WinogradMapDirection::shared_bytes() + channel_bytes();
  }
  std::size_t channel_bytes() const {
    return 2 * sizeof(float) * static_cast<std::size_t>(to_.padded_channels());
  }
  void bind_shared(ArenaAllocator& arena) override {
    WinogradMapDirection::bind_shared(arena);
    channel_scales_ = arena.take<float>(channel_bytes());
    channel_factors_ = channel_scales_ + to_.padded_channels();
  }

  void prepare_weights() const override {
#pragma omp for schedule(static)
    for (std::int64_t block = 0; block < to_.blocks(); ++block) {
      const auto squared_norms = squared_norms_of_columns(matrix_, block);
      for (std::size_t i = 0; i < squared_norms.size(); ++i) {
        const Int16Scale scale(squared_norms[i]);
        const std::int64_t channel = block * cell_channels + static_cast<std::int64_t>(i);
        channel_scales_[channel] = scale.scale;
        channel_factors_[channel] = scale.inverse;
      }
    }
  }

  void convert_weights(std::int64_t from_block, std::int64_t to_block,
                       std::byte* weights) const override {
    int16_.transform_weights(
        matrix_, from_block, to_block, is_rotated_, channel_scales_ + to_block * cell_channels,
        reinterpret_cast<std::int16_t*>(weights) + from_block * cell_size, weight_stride());
  }

  void transform_patch(const TilePosition& tile, const PatchMemory& memory,
                       std::byte* scratch) const override {
    auto* const to = reinterpret_cast<std::int16_t*>(memory.cells);
    auto* const scales = reinterpret_cast<float*>(scratch);
    f4x4::Patch cells = patch<f4x4::patch_size>(*from_, tile.image_block, to_.shape.height,
                                                tile.row - 1, tile.column - 1);
    compute_scales(tile, cells, reinterpret_cast<float*>(memory.extra), scales);
    for (std::int64_t block = 0; block < from_->blocks();
         ++block, next_block(*from_, tile.image_block, cells))
      int16_.transform_input(cells, {0, tile.images * cell_channels}, scales, lanes,
                             to + block * tile.images * cell_channels,
                             frequency_stride(tile.images));
  }

  /// Computes the scales of all images of a patch, and their inverses: those of the chunk of
  /// channels with the largest norm. `cells`: of the first block.
  void compute_scales(const TilePosition& tile, f4x4::Patch cells, float* image_factors,
                      float* scales) const {
    std::array<float, cell_images> largest{};
    for (std::int64_t first = 0; first < from_->blocks(); first += chunk_blocks) {
      std::array<std::array<float, cell_images>, f4x4::patch_size> squares{};
      for (std::int64_t block = first; block < std::min(first + chunk_blocks, from_->blocks());
           ++block, next_block(*from_, tile.image_block, cells)) {
        for (std::size_t row = 0; row < squares.size(); ++row)
          int16_.add_squares_of_images(
              std::span(cells).subspan(row * f4x4::patch_size, f4x4::patch_size), tile.images,
              squares[row].data());
      }
      for (std::size_t image = 0; image < largest.size(); ++image) {
        std::array<float, f4x4::patch_size> of_image{};
        for (std::size_t row = 0; row < squares.size(); ++row) of_image[row] = squares[row][image];
        largest[image] = larger(largest[image], squared_norm_of_rows(of_image));
      }
    }
    for (std::int64_t image = 0; image < tile.images; ++image) {
      const Int16Scale scale(largest[static_cast<std::size_t>(image)]);
      image_factors[image] = scale.inverse;
      std::fill_n(scales + image * lanes, lanes, scale.scale);
    }
  }

  void multiply(const TilePosition& tile, const PatchMemory& memory, const std::byte* weights,
                std::int64_t frequency, float* sums) const override {
    int16_.multiply(Int16Products{.a = reinterpret_cast<const std::int16_t*>(memory.cells) +
                                       frequency * frequency_stride(tile.images),
                                  .b = reinterpret_cast<const std::int16_t*>(weights) +
                                       frequency * weight_stride(),
                                  .a_stride = tile.images * cell_channels,
                                  .b_stride = cell_size,
                                  .count = from_->blocks(),
                                  .rows = tile.images},
                    sums);
  }

  void write_tile(const PatchMemory& memory, std::int64_t to_block, const float* sums,
                  const OutputTile& tile) const override {
    int16_.transform_output(sums, sums_stride, reinterpret_cast<const float*>(memory.extra),
                            channel_factors_ + to_block * cell_channels, tile);
  }

  const Int16Kernels& int16_;
  bool is_rotated_;
  float* channel_scales_ = nullptr;
  float* channel_factors_ = nullptr;
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_int16_map_direction(const Resources& resources,
                                                               std::unique_ptr<CellRows> from,
                                                               const FeatureMap& to,
                                                               const WeightMatrix& weights,
                                                               bool is_rotated) {
  return std::make_unique<Int16MapDirection>(resources, std::move(from), to, weights, is_rotated);
}

}  // namespace lockstep::backend::cpu::cells
