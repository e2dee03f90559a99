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
  Int16MapDirection(const Int16Kernels& kernels, const Resources& resources, Direction direction,
                    const ConvolutionSizes& sizes, std::unique_ptr<CellRows> from,
                    const FeatureMap& to, const WeightMatrix& weights)
      : WinogradMapDirection(
            kernels.instructions(), int16_name,
            winograd_arithmetic(sizes_of(kernels), to.shape, sizes.out_height * sizes.out_width),
            sizes_of(kernels), resources, std::move(from), to, weights, factors_bytes),
        int16_(kernels),
        sizes_(kernels.sizes()),
        is_forward_(direction == Direction::forward),
        stride_(sizes.stride),
        from_height_(is_forward_ ? sizes.in_height : sizes.out_height) {}

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
        matrix_, from_block, to_block, !is_forward_, channel_scales_ + to_block * cell_channels,
        reinterpret_cast<std::int16_t*>(weights) + from_block * cell_size, weight_stride());
  }

  void transform_patch(const TilePosition& tile, const PatchMemory& memory,
                       std::byte* scratch) const override {
    auto* const to = reinterpret_cast<std::int16_t*>(memory.cells);
    auto* const scales = reinterpret_cast<float*>(scratch);
    Patch patch = patch_of(tile);
    compute_scales(tile.images, patch, reinterpret_cast<float*>(memory.extra), scales);
    for (std::int64_t block = 0; block < from_->blocks(); ++block, patch.move_blocks(1))
      int16_.transform_input(patch.cells(), {0, tile.images * cell_channels}, scales, lanes,
                             to + block * tile.images * cell_channels,
                             frequency_stride(tile.images));
  }

  /// Returns the patch of a tile, for the first block of channels. A tile of the output begins at a
  /// multiple of its input pixels, one pixel after its patch; one of the input of a convolution of
  /// stride 2 begins at twice the first pixel of its patch.
  Patch patch_of(const TilePosition& tile) const {
    const auto first = [&](std::int64_t position) {
      return is_forward_ || stride_ == 1 ? position * stride_ - 1 : position / stride_;
    };
    return {*from_,          tile.image_block,   from_height_,
            first(tile.row), first(tile.column), sizes_.patch_size};
  }

  /// Computes the scales of all images of a patch, and their inverses: those of the chunk of
  /// channels with the largest norm. `patch`: of the first block.
  void compute_scales(std::int64_t images, Patch patch, float* image_factors, float* scales) const {
    std::array<float, cell_images> largest{};
    for (std::int64_t first = 0; first < from_->blocks(); first += chunk_blocks) {
      std::array<std::array<float, cell_images>, Patch::most_size> squares{};
      for (std::int64_t block = first; block < std::min(first + chunk_blocks, from_->blocks());
           ++block, patch.move_blocks(1)) {
        for (std::int64_t row = 0; row < patch.size(); ++row)
          int16_.add_squares_of_images(patch.row(row), images,
                                       squares[static_cast<std::size_t>(row)].data());
      }
      for (std::size_t image = 0; image < largest.size(); ++image) {
        std::array<float, Patch::most_size> of_image{};
        for (std::size_t row = 0; row < squares.size(); ++row) of_image[row] = squares[row][image];
        largest[image] = larger(largest[image], squared_norm_of_rows(of_image));
      }
    }
    for (std::int64_t image = 0; image < images; ++image) {
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
                                       sizes_.weight_frequency(frequency) * weight_stride(),
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
  Int16Kernels::Sizes sizes_;
  bool is_forward_;
  std::int64_t stride_, from_height_;
  float* channel_scales_ = nullptr;
  float* channel_factors_ = nullptr;
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_int16_map_direction(
    const Resources& resources, Direction direction, const ConvolutionSizes& sizes,
    std::unique_ptr<CellRows> from, const FeatureMap& to, const WeightMatrix& weights) {
  const Int16Kernels& kernels =
      resources.kernels->int16(sizes.stride == 1                 ? Int16Scheme::unstrided
                               : direction == Direction::forward ? Int16Scheme::strided
                                                                 : Int16Scheme::strided_data);
  return std::make_unique<Int16MapDirection>(kernels, resources, direction, sizes, std::move(from),
                                             to, weights);
}

}  // namespace lockstep::backend::cpu::cells
