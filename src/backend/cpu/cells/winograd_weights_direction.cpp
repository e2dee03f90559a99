#include <omp.h>

#include <algorithm>
#include <array>
#include <utility>

#include "bias_gradient.hpp"
#include "directions.hpp"
#include "geometry.hpp"
#include "tiles.hpp"
#include "winograd_tiles.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

/// Bytes of transformed cells of a group of tiles: few enough that they stay in the last-level
/// cache, enough that the sums, which each group reads and writes, do not take most of the time.
std::int64_t bytes_of_group(std::int64_t sums_bytes) {
  return std::max<std::int64_t>(2 << 20, sums_bytes / 2);
}

/// Computes the gradient of the weights by Winograd's algorithm. The threads transform the tiles of
/// a group together, and then multiply them: a task computes the sums of one block of output
/// channels and one block of input channels, or of some frequencies of them.
class WinogradWeightsDirection : public ConvolutionDirection {
 public:
  WinogradWeightsDirection(const Resources& resources, const ConvolutionSizes& sizes,
                           std::unique_ptr<CellRows> source, std::unique_ptr<CellRows> destination)
      : kernels_(*resources.kernels),
        threads_(resources.threads),
        sizes_(sizes),
        source_(std::move(source)),
        destination_(std::move(destination)),
        grid_({sizes.out_channels, sizes.out_height, sizes.out_width}),
        tiles_(ceil_div(sizes.images, cell_images) * grid_.count()),
        tiles_at_once_(std::clamp<std::int64_t>(
            bytes_of_group(pairs() * sums_bytes) /
                (frequencies * cell_bytes * (source_->blocks() + destination_->blocks())),
            1, tiles_)),
        parts_(parts_per_task(pairs(), threads_, frequencies)),
        bias_gradient_(sizes.out_channels, threads_),
        implementation_(winograd_name(kernels_, *source_)) {}

  const std::string& implementation() const override { return implementation_; }
  double arithmetic() const override {
    return winograd_arithmetic({sizes_.out_channels, sizes_.out_height, sizes_.out_width});
  }

  std::size_t workspace_bytes() const override {
    return cells_bytes(*source_) + cells_bytes(*destination_) +
           static_cast<std::size_t>((stores_sums() ? pairs() : threads_) * sums_bytes) +
           bias_gradient_.workspace_bytes() + static_cast<std::size_t>(threads_) * own_bytes();
  }

  void bind(std::byte* workspace, float* flat, float* bias) override {
    ArenaAllocator arena(workspace);
    source_cells_ = reinterpret_cast<BFloat16*>(arena.take(cells_bytes(*source_)));
    gradient_cells_ = reinterpret_cast<BFloat16*>(arena.take(cells_bytes(*destination_)));
    sums_ = reinterpret_cast<float*>(
        arena.take(static_cast<std::size_t>((stores_sums() ? pairs() : threads_) * sums_bytes)));
    bias_gradient_.bind(arena.take(bias_gradient_.workspace_bytes()), bias);
    own_ = arena.take(0);
    flat_ = flat;
  }

  void run() override {
    bias_gradient_.begin();
#pragma omp parallel num_threads(threads_)
    {
      kernels_.enter();
      OwnMemory own(*this, omp_get_thread_num());
      for (std::int64_t first = 0; first < tiles_; first += tiles_at_once_) {
        const std::int64_t count = std::min(tiles_at_once_, tiles_ - first);
#pragma omp for schedule(static)
        for (std::int64_t tile = 0; tile < count; ++tile) {
          transform_source(own, first + tile, tile);
          transform_gradient(own, first + tile, tile);
        }
        multiply(first, count);
      }
      if (parts_ > 1) {
#pragma omp for schedule(static)
        for (std::int64_t pair = 0; pair < pairs(); ++pair) write_gradient(pair);
      }
      kernels_.leave();
    }
    bias_gradient_.finish();
  }

 private:
  static constexpr std::int64_t patch_bytes =
      std::int64_t{std::tuple_size_v<PatchCells>} * cell_bytes;

  /// Memory of one thread.
  struct OwnMemory {
    OwnMemory(const WinogradWeightsDirection& direction, int thread)
        : arena(direction.own_ + static_cast<std::size_t>(thread) * direction.own_bytes()),
          patch(reinterpret_cast<BFloat16*>(arena.take(patch_bytes))),
          source(*direction.source_, rows_of(*direction.source_)),
          gradient(*direction.destination_, rows_of(*direction.destination_)) {}

    BFloat16* rows_of(const CellRows& rows) {
      return reinterpret_cast<BFloat16*>(arena.take(RecentRows::bytes(rows)));
    }

    BFloat16* cell(std::size_t i) const { return patch + i * cell_size; }

    ArenaAllocator arena;
    BFloat16* patch;  ///< cells [pixel]
    RecentRows source, gradient;
  };

  /// Pairs of an output block and an input block.
  std::int64_t pairs() const { return source_->blocks() * destination_->blocks(); }
  static constexpr std::int64_t sums_bytes =  // of a pair
      frequencies * cell_size * std::int64_t{sizeof(float)};
  /// The sums of all pairs are stored from group to group, or until all parts of a pair are
  /// complete; otherwise each thread needs those of one pair only.
  bool stores_sums() const { return tiles_at_once_ < tiles_ || parts_ > 1; }

  std::size_t cells_bytes(const CellRows& rows) const {
    return static_cast<std::size_t>(rows.blocks() * frequencies * frequency_stride()) *
           sizeof(BFloat16);
  }
  std::size_t own_bytes() const {
    return patch_bytes + RecentRows::bytes(*source_) + RecentRows::bytes(*destination_);
  }

  /// Returns the sums [frequency] of a pair, which this thread computes.
  float* sums_of(std::int64_t pair) const {
    return sums_ + (stores_sums() ? pair : omp_get_thread_num()) * frequencies * cell_size;
  }
  /// Values from one frequency to the next. The cache line more than the cells of all tiles keeps
  /// the frequencies of one element out of the same cache set.
  std::int64_t frequency_stride() const { return tiles_at_once_ * cell_size + cache_line; }
  /// Returns the cells [frequency][tile of the group] of a block.
  BFloat16* cells_of(BFloat16* cells, std::int64_t block) const {
    return cells + block * frequencies * frequency_stride();
  }

  struct TilePosition {
    std::int64_t image_block, row, column;  ///< pixels of the output
    std::int64_t images;                    ///< of the block
  };
  TilePosition position_of(std::int64_t tile) const {
    const std::int64_t in_image = tile % grid_.count();
    const std::int64_t image_block = tile / grid_.count();
    return {image_block, in_image / grid_.columns * tile_size, in_image % grid_.columns * tile_size,
            images_in_block(sizes_.images, image_block)};
  }

  // The transforms are computed element by element, so that cells can be interleaved or transposed
  // before they are transformed: there are fewer of them then.

  void transform_source(OwnMemory& own, std::int64_t tile, std::int64_t to) const {
    const TilePosition at = position_of(tile);
    PatchCells cells;
    own.source.patch<4>(at.image_block, sizes_.in_height, at.row - 1, at.column - 1, cells);
    for (std::int64_t block = 0; block < source_->blocks(); ++block, own.source.next_block(cells)) {
      PatchCells interleaved = cells;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        if (cells[i] == zero_cell) continue;
        interleaved[i] = own.cell(i);
        kernels_.interleave(cells[i], at.images, own.cell(i));
      }
      kernels_.transform_interleaved(interleaved, at.images,
                                     cells_of(source_cells_, block) + to * cell_size,
                                     frequency_stride());
    }
  }

  void transform_gradient(OwnMemory& own, std::int64_t tile, std::int64_t to) const {
    const TilePosition at = position_of(tile);
    GradientPatchCells cells;
    own.gradient.patch<2>(at.image_block, sizes_.out_height, at.row, at.column, cells);
    for (std::int64_t block = 0; block < destination_->blocks();
         ++block, own.gradient.next_block(cells)) {
      GradientPatchCells transposed = cells;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        if (cells[i] == zero_cell) continue;
        transposed[i] = own.cell(i);
        kernels_.transpose(cells[i], at.images, own.cell(i));
        bias_gradient_.add(kernels_, omp_get_thread_num(), block, cells[i], at.images);
      }
      kernels_.transform_gradient(transposed, cells_of(gradient_cells_, block) + to * cell_size,
                                  frequency_stride());
    }
  }

  /// Adds the products of a group to the sums. Called by all threads, which share the work; ends
  /// with a barrier.
  void multiply(std::int64_t first_tile, std::int64_t tiles) const {
    // The tiles of the last block of images may have fewer images than the others.
    const std::int64_t others = sizes_.images / cell_images * grid_.count();
    const std::int64_t full = std::clamp<std::int64_t>(others - first_tile, 0, tiles);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < pairs() * parts_; ++task) {
      const std::int64_t pair = task / parts_;
      const Range part = part_of(frequencies, task % parts_, parts_);
      const BFloat16* const a = cells_of(gradient_cells_, pair / source_->blocks());
      const BFloat16* const b = cells_of(source_cells_, pair % source_->blocks());
      for (std::int64_t f = part.first; f < part.last; ++f) {
        CellProducts products{.a = a + f * frequency_stride(),
                              .b = b + f * frequency_stride(),
                              .a_stride = cell_size,
                              .b_stride = cell_size,
                              .count = full,
                              .adds = first_tile > 0,
                              .sums = sums_of(pair) + f * cell_size};
        if (full > 0) kernels_.multiply(products);
        if (full == tiles) continue;
        products.a += full * cell_size;
        products.b += full * cell_size;
        products.count = tiles - full;
        products.depth = sizes_.images % cell_images;
        products.adds = first_tile + full > 0;
        kernels_.multiply(products);
      }
      if (first_tile + tiles == tiles_ && parts_ == 1) write_gradient(pair);
    }
  }

  /// Writes the gradient of the weights (KCRS) of a pair.
  void write_gradient(std::int64_t pair) const {
    const std::int64_t first_k = pair / source_->blocks() * cell_channels;
    const std::int64_t first_c = pair % source_->blocks() * cell_channels;
    const std::int64_t rows = std::min(cell_channels, sizes_.out_channels - first_k);
    const std::int64_t columns = std::min(cell_channels, sizes_.in_channels - first_c);
    for (std::int64_t k = 0; k < rows; ++k) {
      for (std::int64_t c = 0; c < columns; c += tile_rows)
        kernels_.transform_weight_gradient(
            sums_of(pair) + (k / tile_rows * 2 + c / tile_rows) * tile_floats +
                k % tile_rows * tile_rows,
            cell_size, std::min(tile_rows, columns - c),
            flat_ + ((first_k + k) * sizes_.in_channels + first_c + c) * 9);
    }
  }

  const Kernels& kernels_;
  int threads_;
  ConvolutionSizes sizes_;
  std::unique_ptr<CellRows> source_, destination_;
  TileGrid grid_;
  std::int64_t tiles_, tiles_at_once_;  // of all blocks of images
  std::int64_t parts_;                  // of the frequencies of a pair
  BiasGradient bias_gradient_;
  std::string implementation_;
  BFloat16* source_cells_ = nullptr;    // interleaved, shared by the threads
  BFloat16* gradient_cells_ = nullptr;  // transposed, shared by the threads
  float* sums_ = nullptr;
  std::byte* own_ = nullptr;  // `OwnMemory` of each thread
  float* flat_ = nullptr;
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_winograd_weights_direction(
    const Resources& resources, const ConvolutionSizes& sizes, std::unique_ptr<CellRows> source,
    std::unique_ptr<CellRows> destination) {
  return std::make_unique<WinogradWeightsDirection>(resources, sizes, std::move(source),
                                                    std::move(destination));
}

}  // namespace lockstep::backend::cpu::cells
