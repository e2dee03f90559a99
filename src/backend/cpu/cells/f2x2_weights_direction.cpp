// SPDX-License-Identifier: BSD-3-Clause
#include <iterator>

#include "../row_kernels.hpp"
#include "directions.hpp"
#include "tiles.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

/// The pixels of the output that a tile covers.
struct TilePosition {
  std::int64_t image_block, row, column;  ///< the first row and column
  std::int64_t images;                    ///< of the block
};

/// Tiles that are processed one after the other: first those with 32 images, then those with fewer.
struct TileList {
  std::vector<TilePosition> tiles;
  std::int64_t complete = 0;  ///< tiles with 32 images

  std::int64_t count() const { return std::ssize(tiles); }
};

/// Divides the tiles into `parts` lists of about the same work; there are at least as many tiles.
/// The parts of the maps are about those that a thread of a map direction writes.
std::vector<TileList> divide_tiles(const TileGrid& grid, std::int64_t images, int parts) {
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

/// Computes the gradient of the weights by Winograd's algorithm: transforms the tiles of a group,
/// and then multiplies them. If the transformed tiles are larger than the sums of all threads, each
/// thread processes its own groups, so that no thread reads what another one has transformed,
/// and the sums of the threads are added at the end. Otherwise all threads share each group: a task
/// computes the sums of one block of output channels and one block of input channels, or of some
/// frequencies of them.
class WinogradWeightsDirection final : public WeightsDirection {
 public:
  WinogradWeightsDirection(const Resources& resources, const ConvolutionSizes& sizes,
                           std::unique_ptr<CellRows> source, std::unique_ptr<CellRows> destination)
      : WeightsDirection(
            winograd_name,
            winograd_arithmetic({sizes.out_channels, sizes.out_height, sizes.out_width}), resources,
            sizes, std::move(source), std::move(destination)),
        grid_({sizes.out_channels, sizes.out_height, sizes.out_width}),
        is_shared_(threads_ == 1 ||
                   ceil_div(sizes.images, cell_images) * grid_.count() * tile_bytes() <
                       threads_ * pairs() * sums_bytes),
        lists_(divide_tiles(grid_, sizes.images, is_shared_ ? 1 : threads_)),
        most_tiles_(std::ranges::max_element(lists_, {}, &TileList::count)->count()),
        // Few enough that their cells stay in the last-level cache, enough that the sums, which
        // each group reads and writes, do not take most of the time.
        tiles_at_once_(std::clamp<std::int64_t>(
            std::max(2 * resources.cached_bytes, pairs() * sums_bytes / 2) / tile_bytes(), 1,
            most_tiles_)),
        parts_(is_shared_ ? parts_per_task(pairs(), threads_, frequencies) : 1) {}

 private:
  /// Memory for the cells of one patch before they are transformed.
  std::size_t own_bytes() const override {
    return std::tuple_size_v<PatchCells> * static_cast<std::size_t>(cell_bytes);
  }
  BFloat16* patch_cell(std::size_t i) const {
    return own() + static_cast<std::int64_t>(i) * cell_size;
  }
  std::size_t shared_bytes() const override { return lists_.size() * group_bytes(); }
  void bind_shared(ArenaAllocator& arena) override { groups_ = arena.take(shared_bytes()); }

  void compute() override {
    if (is_shared_) {
      run_shared();
    } else {
      run_alone();
    }
  }

  /// Memory for the groups of tiles of one list.
  struct GroupMemory {
    GroupMemory(const WinogradWeightsDirection& direction, std::size_t list) {
      ArenaAllocator arena(direction.groups_ + list * direction.group_bytes());
      source = arena.take<BFloat16>(direction.cells_bytes(*direction.source_));
      gradient = arena.take<BFloat16>(direction.cells_bytes(*direction.destination_));
      sums = arena.take<float>(0);
    }
    BFloat16* source;    ///< interleaved cells
    BFloat16* gradient;  ///< transposed cells
    float* sums;
  };

  /// Pairs of an output block and an input block.
  std::int64_t pairs() const { return source_->blocks() * destination_->blocks(); }
  static constexpr std::int64_t sums_bytes =  // of a pair
      frequencies * cell_size * std::int64_t{sizeof(float)};
  /// The sums of all pairs are stored unless the threads share a single group and write each pair
  /// as soon as its sums are complete; then each thread needs those of one pair only.
  bool stores_sums() const { return !is_shared_ || tiles_at_once_ < most_tiles_ || parts_ > 1; }

  /// Bytes of the transformed cells of a tile.
  std::int64_t tile_bytes() const {
    return frequencies * cell_bytes * (source_->blocks() + destination_->blocks());
  }
  std::size_t cells_bytes(const CellRows& rows) const {
    return static_cast<std::size_t>(rows.blocks() * frequencies * frequency_stride()) *
           sizeof(BFloat16);
  }
  std::size_t group_bytes() const {
    return cells_bytes(*source_) + cells_bytes(*destination_) +
           static_cast<std::size_t>((stores_sums() ? pairs() : threads_) * sums_bytes);
  }

  /// Returns the sums [frequency] of a pair, which this thread computes.
  float* sums_of(const GroupMemory& memory, std::int64_t pair) const {
    return memory.sums + (stores_sums() ? pair : omp_get_thread_num()) * frequencies * cell_size;
  }
  /// Values from one frequency to the next. The cache line more than the cells of all tiles keeps
  /// the frequencies of one element out of the same cache set.
  std::int64_t frequency_stride() const { return tiles_at_once_ * cell_size + cache_line; }
  /// Returns the cells [frequency][tile of the group] of a block.
  BFloat16* cells_of(BFloat16* cells, std::int64_t block) const {
    return cells + block * frequencies * frequency_stride();
  }

  /// Called by all threads.
  void run_alone() const {
#pragma omp for schedule(static)
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      const TileList& list = lists_[i];
      const GroupMemory memory(*this, i);
      for (std::int64_t first = 0; first < list.count(); first += tiles_at_once_) {
        const Range tiles{first, std::min(first + tiles_at_once_, list.count())};
        for (std::int64_t tile = tiles.first; tile < tiles.last; ++tile)
          transform(list, tile, tile - first, memory);
        for (std::int64_t pair = 0; pair < pairs(); ++pair)
          multiply(list, tiles, pair, {0, frequencies}, memory);
      }
    }
#pragma omp for schedule(static)
    for (std::int64_t pair = 0; pair < pairs(); ++pair) {
      float* const sums = sums_of(GroupMemory(*this, 0), pair);
      for (std::size_t i = 1; i < lists_.size(); ++i)
        add_into(sums_of(GroupMemory(*this, i), pair), sums, frequencies * cell_size);
      write_gradient(pair, sums);
    }
  }

  /// Called by all threads.
  void run_shared() const {
    const TileList& list = lists_.front();
    const GroupMemory memory(*this, 0);
    for (std::int64_t first = 0; first < list.count(); first += tiles_at_once_) {
      const Range tiles{first, std::min(first + tiles_at_once_, list.count())};
#pragma omp for schedule(static)
      for (std::int64_t tile = tiles.first; tile < tiles.last; ++tile)
        transform(list, tile, tile - first, memory);
#pragma omp for schedule(static)
      for (std::int64_t task = 0; task < pairs() * parts_; ++task) {
        const std::int64_t pair = task / parts_;
        multiply(list, tiles, pair, part_of(frequencies, task % parts_, parts_), memory);
        if (tiles.last == list.count() && parts_ == 1) write_gradient(pair, sums_of(memory, pair));
      }
    }
    if (parts_ == 1) return;
#pragma omp for schedule(static)
    for (std::int64_t pair = 0; pair < pairs(); ++pair) write_gradient(pair, sums_of(memory, pair));
  }

  /// Transforms the maps of tile `tile` of a list to the cells of tile `to` of the group.
  void transform(const TileList& list, std::int64_t tile, std::int64_t to,
                 const GroupMemory& memory) const {
    const TilePosition& at = list.tiles[static_cast<std::size_t>(tile)];
    transform_source(at, memory.source + to * cell_size);
    transform_gradient(at, memory.gradient + to * cell_size);
  }

  // The transforms are computed element by element, so that cells can be interleaved or transposed
  // before they are transformed: there are fewer of them then.

  void transform_source(const TilePosition& at, BFloat16* to) const {
    PatchCells cells =
        patch<4>(*source_, at.image_block, sizes_.in_height, at.row - 1, at.column - 1);
    for (std::int64_t block = 0; block < source_->blocks();
         ++block, next_block(*source_, at.image_block, cells)) {
      PatchCells interleaved = cells;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        if (cells[i] == zero_cell) continue;
        interleaved[i] = patch_cell(i);
        kernels_.interleave(cells[i], at.images, patch_cell(i));
      }
      BFloat16* const cells_to = cells_of(to, block);
      for (std::int64_t half = 0; half < cell_size; half += tile_halves) {
        const Range pairs{half, half + ceil_div(at.images, 2) * 32};  // the others are zeros
        kernels_.transform_input(interleaved, pairs, cells_to, frequency_stride());
        for (std::int64_t f = 0; f < frequencies; ++f)
          std::fill(cells_to + f * frequency_stride() + pairs.last,
                    cells_to + f * frequency_stride() + half + tile_halves, BFloat16{});
      }
    }
  }

  void transform_gradient(const TilePosition& at, BFloat16* to) const {
    GradientPatchCells cells =
        patch<2>(*destination_, at.image_block, sizes_.out_height, at.row, at.column);
    for (std::int64_t block = 0; block < destination_->blocks();
         ++block, next_block(*destination_, at.image_block, cells)) {
      GradientPatchCells transposed = cells;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        if (cells[i] == zero_cell) continue;
        transposed[i] = patch_cell(i);
        kernels_.transpose(cells[i], at.images, patch_cell(i));
        add_to_bias(block, cells[i], at.images);
      }
      kernels_.transform_gradient(transposed, cells_of(to, block), frequency_stride());
    }
  }

  /// Adds the products of the tiles of a group to the sums of a pair, for some frequencies.
  void multiply(const TileList& list, Range tiles, std::int64_t pair, Range part,
                const GroupMemory& memory) const {
    const std::int64_t count = tiles.last - tiles.first;
    const std::int64_t complete = std::clamp<std::int64_t>(list.complete - tiles.first, 0, count);
    const BFloat16* const a = cells_of(memory.gradient, pair / source_->blocks());
    const BFloat16* const b = cells_of(memory.source, pair % source_->blocks());
    for (std::int64_t f = part.first; f < part.last; ++f) {
      CellProducts products{.a = a + f * frequency_stride(),
                            .b = b + f * frequency_stride(),
                            .a_stride = cell_size,
                            .b_stride = cell_size,
                            .count = complete,
                            .adds = tiles.first > 0,
                            .sums = sums_of(memory, pair) + f * cell_size};
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

  /// Writes the gradient of the weights (KCRS) of a pair.
  void write_gradient(std::int64_t pair, const float* sums) const {
    const std::int64_t first_k = pair / source_->blocks() * cell_channels;
    const std::int64_t first_c = pair % source_->blocks() * cell_channels;
    const std::int64_t rows = std::min(cell_channels, sizes_.out_channels - first_k);
    const std::int64_t columns = std::min(cell_channels, sizes_.in_channels - first_c);
    for (std::int64_t k = 0; k < rows; ++k) {
      for (std::int64_t c = 0; c < columns; c += tile_rows)
        kernels_.transform_weight_gradient(
            sums + (k / tile_rows * 2 + c / tile_rows) * tile_floats + k % tile_rows * tile_rows,
            cell_size, std::min(tile_rows, columns - c),
            flat_ + ((first_k + k) * sizes_.in_channels + first_c + c) * 9);
    }
  }

  TileGrid grid_;
  bool is_shared_;                           // the threads share the groups of tiles
  std::vector<TileList> lists_;              // of all threads together, or of each thread
  std::int64_t most_tiles_, tiles_at_once_;  // of a list; of a group
  std::int64_t parts_;                       // of the frequencies of a pair
  std::byte* groups_ = nullptr;              // `GroupMemory` of each list
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_winograd_weights_direction(
    const Resources& resources, const ConvolutionSizes& sizes, std::unique_ptr<CellRows> source,
    std::unique_ptr<CellRows> destination) {
  return std::make_unique<WinogradWeightsDirection>(resources, sizes, std::move(source),
                                                    std::move(destination));
}

}  // namespace lockstep::backend::cpu::cells
