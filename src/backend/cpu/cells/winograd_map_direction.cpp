// SPDX-License-Identifier: BSD-3-Clause
#include "winograd_map_direction.hpp"

namespace lockstep::backend::cpu::cells {

namespace {

/// Adds the tiles of some rows of tiles of a block of images.
void add_tiles(const FeatureMap& map, std::int64_t tile_size, std::int64_t image_block, Range rows,
               std::vector<TilePosition>& tiles) {
  const TileGrid grid(map.shape, tile_size);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t column = 0; column < grid.columns; ++column)
      tiles.push_back({image_block, row * tile_size, column * tile_size,
                       images_in_block(map.images, image_block)});
  }
}

/// Returns true if the transformed patches of a map are not larger than the transformed weights,
/// and there are enough blocks of its channels for all threads.
bool are_patches_shared(const FeatureMap& map, const WinogradSizes& winograd, int threads) {
  const std::int64_t tiles = map.image_blocks() * TileGrid(map.shape, winograd.tile_size).count();
  return tiles * winograd.frequencies <= map.blocks() * winograd.weight_frequencies &&
         map.blocks() >= threads;
}

}  // namespace

WinogradMapDirection::WinogradMapDirection(std::string_view instructions,
                                           std::string_view algorithm, double arithmetic,
                                           WinogradSizes winograd, const Resources& resources,
                                           std::unique_ptr<CellRows> from, const FeatureMap& to,
                                           const WeightMatrix& weights,
                                           std::size_t patch_extra_bytes)
    : MapDirection(instructions, algorithm, arithmetic, resources, std::move(from), to, weights,
                   winograd.weight_frequencies,
                   !are_patches_shared(to, winograd, resources.threads)),
      winograd_(winograd),
      patch_extra_bytes_(patch_extra_bytes),
      work_(stores_weights() ? static_cast<std::size_t>(threads_) : 1) {
  const TileGrid grid(to.shape, winograd.tile_size);
  const std::int64_t most_tiles = to.image_blocks() * grid.count();
  if (!stores_weights()) {
    Work& all = work_.front().emplace_back();
    for (std::int64_t block = 0; block < to.image_blocks(); ++block)
      add_tiles(to, winograd.tile_size, block, {0, grid.rows}, all.tiles);
    tiles_at_once_ = most_tiles;
    return;
  }
  // The other cached bytes are for the weights.
  const auto tile_bytes =
      static_cast<std::int64_t>(patch_bytes()) + winograd.frequencies * sums_bytes;
  tiles_at_once_ = std::clamp<std::int64_t>(resources.cached_bytes / 4 / tile_bytes, 1, most_tiles);
  const BlockTasks tasks = tasks_of(to, threads_, grid.rows);
  for (std::size_t thread = 0; thread < work_.size(); ++thread) {
    std::vector<Work>& own = work_[thread];
    const Range range = part_of(tasks.count(), static_cast<std::int64_t>(thread), threads_);
    for (std::int64_t task = range.first; task < range.last; ++task) {
      const Range to_blocks = tasks.columns(task, to.blocks());
      if (own.empty() || own.back().to_blocks.first != to_blocks.first)
        own.push_back({.tiles = {}, .to_blocks = to_blocks});
      add_tiles(to, winograd.tile_size, tasks.block(task), tasks.rows(task, grid.rows),
                own.back().tiles);
    }
  }
}

std::size_t WinogradMapDirection::cells_bytes() const {
  return static_cast<std::size_t>(winograd_.frequencies * frequency_stride(cell_images)) *
         sizeof(core::BFloat16);
}

std::size_t WinogradMapDirection::shared_bytes() const {
  return stores_weights() ? 0 : patches_bytes();
}

void WinogradMapDirection::bind_shared(ArenaAllocator& arena) {
  if (!stores_weights()) shared_patches_ = arena.take(patches_bytes());
}

std::size_t WinogradMapDirection::own_bytes() const {
  const auto block_sums =
      static_cast<std::size_t>(tiles_at_once_ * winograd_.frequencies * std::int64_t{sums_bytes});
  return scratch_bytes() + block_sums +
         (stores_weights() ? patches_bytes() : static_cast<std::size_t>(weight_block_bytes()));
}

WinogradMapDirection::Memory WinogradMapDirection::memory_of(std::byte* own) const {
  ArenaAllocator arena(own);
  Memory memory{};
  if (stores_weights()) {
    memory.patches = arena.take(patches_bytes());
  } else {
    memory.patches = shared_patches_;
    memory.weights = arena.take(static_cast<std::size_t>(weight_block_bytes()));
  }
  memory.scratch = arena.take(scratch_bytes());
  memory.sums = arena.take<float>(0);
  return memory;
}

WinogradMapDirection::PatchMemory WinogradMapDirection::patch_of(const Memory& memory,
                                                                 std::size_t index) const {
  std::byte* const cells = memory.patches + index * patch_bytes();
  return {cells, cells + cells_bytes()};
}

void WinogradMapDirection::compute(std::byte* own) const {
  const Memory memory = memory_of(own);
  if (stores_weights()) {
#pragma omp for schedule(static)
    for (std::size_t thread = 0; thread < work_.size(); ++thread) {
      for (const Work& work : work_[thread]) compute_own_tiles(work, memory);
    }
  } else {
    compute_shared_tiles(work_.front().front().tiles, memory);
  }
}

void WinogradMapDirection::compute_own_tiles(const Work& work, const Memory& memory) const {
  const auto at_once = static_cast<std::size_t>(tiles_at_once_);
  for (std::size_t first = 0; first < work.tiles.size(); first += at_once) {
    const auto tiles =
        std::span(work.tiles).subspan(first, std::min(at_once, work.tiles.size() - first));
    for (std::size_t i = 0; i < tiles.size(); ++i)
      transform_patch(tiles[i], patch_of(memory, i), memory.scratch);
    for (std::int64_t block = work.to_blocks.first; block < work.to_blocks.last; ++block)
      compute_block(tiles, block, weights_of(block), memory);
  }
}

/// Called by all threads.
void WinogradMapDirection::compute_shared_tiles(std::span<const TilePosition> tiles,
                                                const Memory& memory) const {
#pragma omp for schedule(static)
  for (std::size_t i = 0; i < tiles.size(); ++i)
    transform_patch(tiles[i], patch_of(memory, i), memory.scratch);
#pragma omp for schedule(static)
  for (std::int64_t block = 0; block < to_.blocks(); ++block) {
    for (std::int64_t from = 0; from < from_->blocks(); ++from)
      convert_weights(from, block, memory.weights);
    compute_block(tiles, block, memory.weights, memory);
  }
}

/// Computes one block of `to` of the tiles whose patches are in memory.
void WinogradMapDirection::compute_block(std::span<const TilePosition> tiles, std::int64_t to_block,
                                         const std::byte* weights, const Memory& memory) const {
  const auto sums_of = [&](std::size_t tile) {
    return memory.sums + static_cast<std::int64_t>(tile) * winograd_.frequencies * sums_stride;
  };
  // The weights of one frequency stay in the L1 cache for all tiles.
  for (std::int64_t f = 0; f < winograd_.frequencies; ++f) {
    for (std::size_t i = 0; i < tiles.size(); ++i)
      multiply(tiles[i], patch_of(memory, i), weights, f, sums_of(i) + f * sums_stride);
  }
  with_statistics(to_block, [&](PartialSums* statistics) {
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      OutputTile tile = output_tile(tiles[i], to_block);
      tile.statistics = statistics;
      write_tile(patch_of(memory, i), to_block, sums_of(i), tile);
    }
  });
}

OutputTile WinogradMapDirection::output_tile(const TilePosition& tile,
                                             std::int64_t to_block) const {
  const MapRow pixels = output_row(to_, tile.image_block, to_block, tile.row);
  OutputTile output{.first_row = pixels,
                    .row_stride = to_.shape.width * pixels.pixel_stride,
                    .rows = std::min(winograd_.tile_size, to_.shape.height - tile.row),
                    .bias = bias_of(to_block),
                    .streams = is_streamed(to_),
                    .statistics = nullptr};
  output.first_row.first += tile.column * pixels.pixel_stride;
  output.first_row.pixels = std::min(winograd_.tile_size, to_.shape.width - tile.column);
  return output;
}

}  // namespace lockstep::backend::cpu::cells
