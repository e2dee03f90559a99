// SPDX-License-Identifier: BSD-3-Clause
#include <iterator>

#include "int16_kernels.hpp"
#include "tiles.hpp"
#include "winograd_weights_direction.hpp"

namespace lockstep::backend::cpu::cells {

namespace {

/// F(4x4, 3x3) with values that are rounded to 16-bit integers. A sum of products is a dot product
/// over the tiles and images of a chunk: each channel of each chunk has one scale. The sums of
/// chunks are added as float32.
class Int16WeightsDirection final : public WinogradWeightsDirection {
 public:
  Int16WeightsDirection(const Int16Kernels& kernels, const Resources& resources,
                        const ConvolutionSizes& sizes, std::unique_ptr<CellRows> source,
                        std::unique_ptr<CellRows> destination)
      : WinogradWeightsDirection(kernels.instructions(), int16_name, sizes_of(kernels), resources,
                                 sizes, std::move(source), std::move(destination)),
        int16_(kernels),
        int16_sizes_(kernels.sizes()) {}

 private:
  static constexpr std::int64_t lanes = cell_channels / 2;

  /// The scales of a chunk, and their inverses, by channel.
  struct Scales {
    float* source;
    float* source_factors;
    float* gradient;
    float* gradient_factors;
  };

  std::int64_t source_channels() const { return source_->blocks() * cell_channels; }
  std::int64_t gradient_channels() const { return destination_->blocks() * cell_channels; }
  std::int64_t scales_of_chunk() const { return 2 * (source_channels() + gradient_channels()); }
  std::size_t scales_bytes() const override {
    return sizeof(float) *
           static_cast<std::size_t>(ceil_div(tiles_at_once(), chunk_tiles) * scales_of_chunk());
  }
  Scales scales_of(const Group& group, std::int64_t chunk) const {
    float* const first = reinterpret_cast<float*>(group.scales) + chunk * scales_of_chunk();
    float* const gradient = first + 2 * source_channels();
    return {first, first + source_channels(), gradient, gradient + gradient_channels()};
  }

  void compute_scales(const TileList& list, Range tiles, std::int64_t part, std::int64_t parts,
                      const Group& group) const override {
    const Range blocks = part_of(source_->blocks() + destination_->blocks(), part, parts);
    for (std::int64_t first = tiles.first; first < tiles.last; first += chunk_tiles) {
      const Range chunk{first, std::min(first + chunk_tiles, tiles.last)};
      const Scales scales = scales_of(group, (first - tiles.first) / chunk_tiles);
      for (std::int64_t i = blocks.first; i < blocks.last; ++i) {
        const bool is_source = i < source_->blocks();
        const auto patch_of = [&](const TilePosition& tile) {
          return is_source ? source_patch(tile) : gradient_patch(tile);
        };
        compute_block_scales(list, chunk, is_source ? i : i - source_->blocks(), patch_of,
                             is_source ? scales.source : scales.gradient,
                             is_source ? scales.source_factors : scales.gradient_factors);
      }
    }
  }

  /// Computes the scales of the channels of a block for a chunk of tiles.
  template <class PatchOf>
  void compute_block_scales(const TileList& list, Range chunk, std::int64_t block,
                            PatchOf&& patch_of, float* scales, float* factors) const {
    std::array<std::array<float, cell_channels>, Patch::most_size> squares{};  // of rows of pixels
    for (std::int64_t i = chunk.first; i < chunk.last; ++i) {
      const TilePosition& tile = list.tiles[static_cast<std::size_t>(i)];
      Patch patch = patch_of(tile);
      patch.move_blocks(block);
      for (std::int64_t row = 0; row < patch.size(); ++row)
        int16_.add_squares_of_channels(patch.row(row), tile.images,
                                       squares[static_cast<std::size_t>(row)].data());
    }
    for (std::int64_t channel = 0; channel < cell_channels; ++channel) {
      std::array<float, Patch::most_size> of_channel{};
      for (std::size_t row = 0; row < of_channel.size(); ++row)
        of_channel[row] = squares[row][static_cast<std::size_t>(channel)];
      const Int16Scale scale(squared_norm_of_rows(of_channel));
      scales[block * cell_channels + channel] = scale.scale;
      factors[block * cell_channels + channel] = scale.inverse;
    }
  }

  void transform(const TilePosition& tile, std::int64_t to, const Group& group) const override {
    const Scales scales = scales_of(group, to / chunk_tiles);
    transform_source(tile, to, group, scales.source);
    transform_gradient(tile, to, group, scales.gradient);
  }

  void transform_source(const TilePosition& tile, std::int64_t to, const Group& group,
                        const float* scales) const {
    Patch patch = source_patch(tile);
    for (std::int64_t block = 0; block < source_->blocks(); ++block, patch.move_blocks(1)) {
      const Patch copies = interleaved(patch, tile.images);
      for_each_half(group.source, block, to, scales,
                    [&](Range values, const float* of_half, std::int16_t* cells_to) {
                      int16_.transform_input(copies.cells(), values, of_half, 0, cells_to,
                                             frequency_stride());
                    });
    }
  }

  void transform_gradient(const TilePosition& tile, std::int64_t to, const Group& group,
                          const float* scales) const {
    Patch patch = gradient_patch(tile);
    for (std::int64_t block = 0; block < destination_->blocks(); ++block, patch.move_blocks(1)) {
      add_patch_to_bias(block, patch, tile.images);
      const Patch copies = interleaved(patch, tile.images);
      for_each_half(group.gradient, block, to, scales,
                    [&](Range values, const float* of_half, std::int16_t* cells_to) {
                      int16_.transform_gradient(copies.cells(), values, of_half, cells_to,
                                                frequency_stride());
                    });
    }
  }

  /// Calls work(values, scales, destination) for both halves of the channels of interleaved cells.
  template <class Work>
  void for_each_half(std::byte* cells, std::int64_t block, std::int64_t tile, const float* scales,
                     Work&& work) const {
    for (std::int64_t half = 0; half < 2; ++half) {
      const std::int64_t first = half * tile_halves;
      work(Range{first, first + tile_halves}, scales + block * cell_channels + half * lanes,
           cells_of<std::int16_t>(cells, block) + tile * cell_size);
    }
  }

  void multiply(const TileList& list, Range tiles, std::int64_t pair, Range part,
                const Group& group) const override {
    const std::int64_t products = int16_sizes_.product_rows * int16_sizes_.product_rows;
    for (std::int64_t weight = part.first; weight < part.last; ++weight) {
      bool adds = tiles.first > 0;
      for (std::int64_t product = 0; product < products; ++product) {
        if (int16_sizes_.weight_frequency(product) != weight) continue;
        for (std::int64_t first = tiles.first; first < tiles.last; first += chunk_tiles) {
          const Range chunk{first, std::min(first + chunk_tiles, tiles.last)};
          multiply_chunk(list, chunk, tiles.first, pair, product, adds, group,
                         sums_of(group, pair) + weight * cell_size);
          adds = true;
        }
      }
    }
  }

  /// Adds the products of a chunk of tiles, or replaces the sums. `group_first`: the first tile of
  /// the group.
  void multiply_chunk(const TileList& list, Range chunk, std::int64_t group_first,
                      std::int64_t pair, std::int64_t product, bool adds, const Group& group,
                      float* sums) const {
    const std::int64_t k_block = pair / source_->blocks(), c_block = pair % source_->blocks();
    const std::int64_t offset = chunk.first - group_first;
    const std::int64_t count = chunk.last - chunk.first;
    const std::int64_t complete = std::clamp<std::int64_t>(list.complete - chunk.first, 0, count);
    const Scales scales = scales_of(group, offset / chunk_tiles);
    const std::int64_t cells = product * frequency_stride() + offset * cell_size;
    const auto add = [&](std::int64_t first, std::int64_t last, std::int64_t images) {
      if (first == last) return;
      int16_.multiply_scaled(
          Int16Products{
              .a = cells_of<std::int16_t>(group.gradient, k_block) + cells + first * cell_size,
              .b = cells_of<std::int16_t>(group.source, c_block) + cells + first * cell_size,
              .a_stride = cell_size,
              .b_stride = cell_size,
              .count = last - first,
              .depth = images},
          scales.gradient_factors + k_block * cell_channels,
          scales.source_factors + c_block * cell_channels, adds || first > 0, sums);
    };
    add(0, complete, cell_images);
    add(complete, count, sizes_.images % cell_images);
  }

  void transform_weight_gradient(const float* from, std::int64_t channels,
                                 float* to) const override {
    int16_.transform_weight_gradient(from, cell_size, channels, to);
  }

  const Int16Kernels& int16_;
  Int16Kernels::Sizes int16_sizes_;
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_int16_weights_direction(
    const Resources& resources, const ConvolutionSizes& sizes, std::unique_ptr<CellRows> source,
    std::unique_ptr<CellRows> destination) {
  const Int16Kernels& kernels =
      resources.kernels->int16(sizes.stride == 1 ? Int16Scheme::unstrided : Int16Scheme::strided);
  return std::make_unique<Int16WeightsDirection>(kernels, resources, sizes, std::move(source),
                                                 std::move(destination));
}

}  // namespace lockstep::backend::cpu::cells
