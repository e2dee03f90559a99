// SPDX-License-Identifier: BSD-3-Clause
#include <omp.h>

#include <algorithm>
#include <utility>

#include "directions.hpp"
#include "f2x2_tiles.hpp"
#include "geometry.hpp"
#include "output_writer.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

/// Computes one map from the other (forward and backward data) by Winograd's algorithm. A thread
/// transforms the patches of some tiles of one row, for 32 images and all channels, and computes
/// all channels of these tiles, or some channels if there are more threads than rows of tiles.
class WinogradMapDirection : public ConvolutionDirection {
 public:
  WinogradMapDirection(const Resources& resources, std::unique_ptr<CellRows> from,
                       const FeatureMap& to, const WeightMatrix& weights, KernelOrder order)
      : kernels_(*resources.kernels),
        threads_(resources.threads),
        from_(std::move(from)),
        to_(to, resources.threads),
        matrix_(weights),
        order_(order),
        tiles_(to.shape),
        // The other cached bytes are for the weights and the sums.
        tiles_at_once_(std::clamp<std::int64_t>(
            resources.cached_bytes / 4 / (frequencies * from_->blocks() * cell_bytes), 1,
            tiles_.columns)),
        implementation_(winograd_name(kernels_, *from_)) {}

  const std::string& implementation() const override { return implementation_; }
  double arithmetic() const override { return winograd_arithmetic(to_.map().shape); }

  bool compute_statistics(FusedStatistics& statistics) override {
    to_.compute_statistics(statistics);
    return true;
  }

  std::size_t workspace_bytes() const override {
    return weight_bytes() + to_.workspace_bytes() +
           static_cast<std::size_t>(threads_) * own_bytes();
  }

  void bind(std::byte* workspace, float* flat, float* bias) override {
    ArenaAllocator arena(workspace);
    weights_ = reinterpret_cast<BFloat16*>(arena.take(weight_bytes()));
    to_.bind(arena.take(to_.workspace_bytes()), bias);
    own_ = arena.take(0);
    matrix_.flat = flat;
  }

  void run() override {
    const std::int64_t from_blocks = from_->blocks(), to_blocks = to_.blocks();
    const BlockTasks tasks = tasks_of(to_.map(), threads_, tiles_.rows);
    to_.begin();
#pragma omp parallel num_threads(threads_)
    {
      kernels_.enter();
#pragma omp for schedule(static)
      for (std::int64_t i = 0; i < from_blocks * to_blocks; ++i) {
        const auto [from, to] = matrix_.block_at(i);
        kernels_.transform_weights(matrix_, from, to, order_ == KernelOrder::rotated,
                                   weights_of(to) + from * cell_size, from_blocks * cell_size);
      }
      ArenaAllocator own(own_ + static_cast<std::size_t>(omp_get_thread_num()) * own_bytes());
      auto* const input = reinterpret_cast<BFloat16*>(own.take(input_bytes()));
      auto* const sums = reinterpret_cast<float*>(own.take(sums_bytes));
#pragma omp for schedule(static)
      for (std::int64_t task = 0; task < tasks.count(); ++task) {
        const std::int64_t image_block = tasks.block(task);
        const Range part = tasks.rows(task, tiles_.rows);
        const Range blocks = tasks.columns(task, to_blocks);
        for (std::int64_t row = part.first; row < part.last; ++row) {
          for (std::int64_t column = 0; column < tiles_.columns; column += tiles_at_once_) {
            const Range columns{column, std::min(column + tiles_at_once_, tiles_.columns)};
            transform_patches(image_block, row, columns, input);
            compute_tiles(image_block, row, columns, blocks, input, sums);
          }
        }
      }
      kernels_.leave();
    }
    to_.finish();
  }

 private:
  // A cache line between the frequencies keeps those of one element out of the same cache set.

  /// Floats from the sums of one frequency to those of the next.
  static constexpr std::int64_t sums_stride = cell_size + cache_line;
  static constexpr std::size_t sums_bytes = sizeof(float) * frequencies * sums_stride;

  std::size_t weight_bytes() const {
    return static_cast<std::size_t>(frequencies * from_->blocks() * to_.blocks() * cell_bytes);
  }
  std::size_t input_bytes() const {
    return static_cast<std::size_t>(tiles_at_once_ * frequencies * frequency_stride(cell_images)) *
           sizeof(BFloat16);
  }
  std::size_t own_bytes() const { return input_bytes() + sums_bytes; }

  std::int64_t images_of(std::int64_t image_block) const {
    return images_in_block(to_.map().images, image_block);
  }

  /// Values from one frequency of a patch to the next. The cells have only the rows of `images`.
  std::int64_t frequency_stride(std::int64_t images) const {
    return from_->blocks() * images * cell_channels + cache_line;
  }

  /// Cells [frequency][block of from].
  BFloat16* weights_of(std::int64_t to_block) const {
    return weights_ + to_block * frequencies * from_->blocks() * cell_size;
  }

  /// Writes cells [tile][frequency][block of from], with the rows of the images that exist.
  void transform_patches(std::int64_t image_block, std::int64_t row, Range columns,
                         BFloat16* to) const {
    const std::int64_t blocks = from_->blocks(), images = images_of(image_block);
    for (std::int64_t column = columns.first; column < columns.last; ++column) {
      PatchCells cells = patch<4>(*from_, image_block, to_.map().shape.height, row * tile_size - 1,
                                  column * tile_size - 1);
      for (std::int64_t block = 0; block < blocks; ++block, next_block(*from_, image_block, cells))
        kernels_.transform_input(cells, images, to + block * images * cell_channels,
                                 frequency_stride(images));
      to += frequencies * frequency_stride(images);
    }
  }

  void compute_tiles(std::int64_t image_block, std::int64_t row, Range columns, Range to_blocks,
                     const BFloat16* input, float* sums) const {
    const std::int64_t images = images_of(image_block);
    for (std::int64_t to_block = to_blocks.first; to_block < to_blocks.last; ++to_block) {
      to_.write(to_block, [&](PartialSums* statistics) {
        const BFloat16* patch = input;
        for (std::int64_t column = columns.first; column < columns.last; ++column) {
          multiply(patch, images, to_block, sums);
          OutputTile tile = output_tile(image_block, to_block, row, column);
          tile.statistics = statistics;
          kernels_.transform_output(sums, sums_stride, tile);
          patch += frequencies * frequency_stride(images);
        }
      });
    }
  }

  /// Computes the sums of all frequencies of a patch.
  void multiply(const BFloat16* patch, std::int64_t images, std::int64_t to_block,
                float* sums) const {
    const std::int64_t blocks = from_->blocks();
    for (std::int64_t f = 0; f < frequencies; ++f)
      kernels_.multiply(CellProducts{.a = patch + f * frequency_stride(images),
                                     .b = weights_of(to_block) + f * blocks * cell_size,
                                     .a_stride = images * cell_channels,
                                     .b_stride = cell_size,
                                     .count = blocks,
                                     .rows = images,
                                     .sums = sums + f * sums_stride});
  }

  OutputTile output_tile(std::int64_t image_block, std::int64_t to_block, std::int64_t row,
                         std::int64_t column) const {
    const std::int64_t y = row * tile_size, x = column * tile_size;
    const MapRow pixels = output_row(to_.map(), image_block, to_block, y);
    OutputTile tile{.first_row = pixels,
                    .row_stride = to_.map().shape.width * pixels.pixel_stride,
                    .rows = std::min<std::int64_t>(tile_size, to_.map().shape.height - y),
                    .bias = to_.bias(to_block),
                    .streams = is_streamed(to_.map()),
                    .statistics = nullptr};
    tile.first_row.first += x * pixels.pixel_stride;
    tile.first_row.pixels = std::min<std::int64_t>(tile_size, to_.map().shape.width - x);
    return tile;
  }

  const Kernels& kernels_;
  int threads_;
  std::unique_ptr<CellRows> from_;
  OutputWriter to_;
  WeightMatrix matrix_;
  KernelOrder order_;
  TileGrid tiles_;
  std::int64_t tiles_at_once_;
  std::string implementation_;
  BFloat16* weights_ = nullptr;  // shared by the threads
  std::byte* own_ = nullptr;     // per thread: transformed patches, sums
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_winograd_map_direction(const Resources& resources,
                                                                  std::unique_ptr<CellRows> from,
                                                                  const FeatureMap& to,
                                                                  const WeightMatrix& weights,
                                                                  KernelOrder order) {
  return std::make_unique<WinogradMapDirection>(resources, std::move(from), to, weights, order);
}

}  // namespace lockstep::backend::cpu::cells
