// SPDX-License-Identifier: BSD-3-Clause
#include "winograd_weights_direction.hpp"

#include <iterator>

#include "../kernels/row_kernels.hpp"
#include "tiles.hpp"

namespace lockstep::backend::cpu::cells {

namespace {

/// Divides the tiles into `parts` lists of about the same work; there are at least as many tiles.
/// The parts of the maps are about those that a thread of a map direction writes.
std::vector<TileList> divide_tiles(const TileGrid& grid, std::int64_t tile_size,
                                   std::int64_t images, int parts) {
  const BlockTasks tasks(images, cell_images, parts, grid.count());
  std::vector<TileList> lists;
  for (int part = 0; part < parts; ++part) {
    TileList list;
    const Range own = part_of(tasks.count(), part, parts);
    for (std::int64_t task = own.first; task < own.last; ++task) {
      const std::int64_t image_block = tasks.block(task);
      const Range tiles = tasks.rows(task, grid.count());
      for (std::int64_t tile = tiles.first; tile < tiles.last; ++tile)
        list.tiles.push_back({image_block, tile / grid.columns * tile_size,
                              tile % grid.columns * tile_size,
                              images_in_block(images, image_block)});
    }
    const auto is_complete = [](const TilePosition& tile) { return tile.images == cell_images; };
    const auto others = std::ranges::stable_partition(list.tiles, is_complete);
    list.complete = list.count() - std::ssize(others);
    lists.push_back(std::move(list));
  }
  return lists;
}

}  // namespace

WinogradWeightsDirection::WinogradWeightsDirection(
    std::string_view instructions, std::string_view algorithm, WinogradSizes winograd,
    const Resources& resources, const ConvolutionSizes& sizes, std::unique_ptr<CellRows> source,
    std::unique_ptr<CellRows> destination)
    : WeightsDirection(
          instructions, algorithm,
          winograd_arithmetic(winograd, {sizes.out_channels, sizes.out_height, sizes.out_width},
                              sizes.out_height * sizes.out_width),
          resources, sizes, std::move(source), std::move(destination)),
      winograd_(winograd),
      grid_({sizes.out_channels, sizes.out_height, sizes.out_width}, winograd.tile_size),
      is_shared_(threads_ == 1 ||
                 ceil_div(sizes.images, cell_images) * grid_.count() * tile_bytes() <
                     threads_ * pairs() * sums_bytes()),
      lists_(divide_tiles(grid_, winograd.tile_size, sizes.images, is_shared_ ? 1 : threads_)),
      most_tiles_(std::ranges::max_element(lists_, {}, &TileList::count)->count()),
      // Few enough that their cells stay in the last-level cache, enough that the sums, which
      // each group reads and writes, do not take most of the time.
      tiles_at_once_(std::clamp<std::int64_t>(
          std::max(2 * resources.cached_bytes, pairs() * sums_bytes() / 2) / tile_bytes(), 1,
          most_tiles_)),
      parts_(is_shared_ ? parts_per_task(pairs(), threads_, winograd.weight_frequencies) : 1) {}

/// Memory for the cells of one patch before they are transformed.
std::size_t WinogradWeightsDirection::own_bytes() const {
  return static_cast<std::size_t>(winograd_.patch_size * winograd_.patch_size * cell_bytes);
}

std::size_t WinogradWeightsDirection::shared_bytes() const { return lists_.size() * group_bytes(); }

void WinogradWeightsDirection::bind_shared(ArenaAllocator& arena) {
  groups_ = arena.take(shared_bytes());
}

void WinogradWeightsDirection::compute() {
  if (is_shared_) {
    run_shared();
  } else {
    run_alone();
  }
}

WinogradWeightsDirection::Group WinogradWeightsDirection::group_of(std::size_t list) const {
  ArenaAllocator arena(groups_ + list * group_bytes());
  Group group{};
  group.source = arena.take(cells_bytes(*source_));
  group.gradient = arena.take(cells_bytes(*destination_));
  group.scales = arena.take(scales_bytes());
  group.sums = arena.take<float>(0);
  return group;
}

/// Bytes of the sums of a pair of an output block and an input block.
std::int64_t WinogradWeightsDirection::sums_bytes() const {
  return winograd_.weight_frequencies * cell_size * std::int64_t{sizeof(float)};
}

/// The sums of all pairs are stored unless the threads share a single group and write each pair
/// as soon as its sums are complete; then each thread needs those of one pair only.
bool WinogradWeightsDirection::stores_sums() const {
  return !is_shared_ || tiles_at_once_ < most_tiles_ || parts_ > 1;
}

/// Bytes of the transformed cells of a tile.
std::int64_t WinogradWeightsDirection::tile_bytes() const {
  return winograd_.frequencies * cell_bytes * (source_->blocks() + destination_->blocks());
}
std::size_t WinogradWeightsDirection::cells_bytes(const CellRows& rows) const {
  return static_cast<std::size_t>(rows.blocks() * winograd_.frequencies * frequency_stride()) *
         sizeof(core::BFloat16);
}
std::size_t WinogradWeightsDirection::group_bytes() const {
  return cells_bytes(*source_) + cells_bytes(*destination_) + scales_bytes() +
         static_cast<std::size_t>((stores_sums() ? pairs() : threads_) * sums_bytes());
}

float* WinogradWeightsDirection::sums_of(const Group& group, std::int64_t pair) const {
  return group.sums +
         (stores_sums() ? pair : omp_get_thread_num()) * winograd_.weight_frequencies * cell_size;
}

/// Called by all threads.
void WinogradWeightsDirection::run_alone() const {
#pragma omp for schedule(static)
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    const TileList& list = lists_[i];
    const Group group = group_of(i);
    for (std::int64_t first = 0; first < list.count(); first += tiles_at_once_) {
      const Range tiles{first, std::min(first + tiles_at_once_, list.count())};
      compute_scales(list, tiles, 0, 1, group);
      for (std::int64_t tile = tiles.first; tile < tiles.last; ++tile)
        transform(list.tiles[static_cast<std::size_t>(tile)], tile - first, group);
      for (std::int64_t pair = 0; pair < pairs(); ++pair)
        multiply(list, tiles, pair, {0, winograd_.weight_frequencies}, group);
    }
  }
#pragma omp for schedule(static)
  for (std::int64_t pair = 0; pair < pairs(); ++pair) {
    float* const sums = sums_of(group_of(0), pair);
    for (std::size_t i = 1; i < lists_.size(); ++i)
      add_into(sums_of(group_of(i), pair), sums, winograd_.weight_frequencies * cell_size);
    write_gradient(pair, sums);
  }
}

/// Called by all threads.
void WinogradWeightsDirection::run_shared() const {
  const TileList& list = lists_.front();
  const Group group = group_of(0);
  for (std::int64_t first = 0; first < list.count(); first += tiles_at_once_) {
    const Range tiles{first, std::min(first + tiles_at_once_, list.count())};
#pragma omp for schedule(static)
    for (int part = 0; part < threads_; ++part) compute_scales(list, tiles, part, threads_, group);
#pragma omp for schedule(static)
    for (std::int64_t tile = tiles.first; tile < tiles.last; ++tile)
      transform(list.tiles[static_cast<std::size_t>(tile)], tile - first, group);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < pairs() * parts_; ++task) {
      const std::int64_t pair = task / parts_;
      multiply(list, tiles, pair, part_of(winograd_.weight_frequencies, task % parts_, parts_),
               group);
      if (tiles.last == list.count() && parts_ == 1) write_gradient(pair, sums_of(group, pair));
    }
  }
  if (parts_ == 1) return;
#pragma omp for schedule(static)
  for (std::int64_t pair = 0; pair < pairs(); ++pair) write_gradient(pair, sums_of(group, pair));
}

/// Writes the gradient of the weights (KCRS) of a pair.
void WinogradWeightsDirection::write_gradient(std::int64_t pair, const float* sums) const {
  const std::int64_t first_k = pair / source_->blocks() * cell_channels;
  const std::int64_t first_c = pair % source_->blocks() * cell_channels;
  const std::int64_t rows = std::min(cell_channels, sizes_.out_channels - first_k);
  const std::int64_t columns = std::min(cell_channels, sizes_.in_channels - first_c);
  for (std::int64_t k = 0; k < rows; ++k) {
    for (std::int64_t c = 0; c < columns; c += tile_rows)
      transform_weight_gradient(
          sums + (k / tile_rows * 2 + c / tile_rows) * tile_floats + k % tile_rows * tile_rows,
          std::min(tile_rows, columns - c),
          flat_ + ((first_k + k) * sizes_.in_channels + first_c + c) * 9);
  }
}

}  // namespace lockstep::backend::cpu::cells
