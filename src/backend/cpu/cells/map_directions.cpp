// SPDX-License-Identifier: BSD-3-Clause
#include "directions.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

/// Computes one map from the other: forward and backward data. The derived classes convert the
/// weights to weight cells and multiply them.
class MapDirection : public ConvolutionDirection {
 public:
  bool compute_statistics(FusedStatistics& statistics) override {
    statistics_ =
        std::make_unique<StatisticsAccumulator>(statistics, to_.padded_channels(), threads_);
    return true;
  }

  std::size_t workspace_bytes() const override {
    return weight_bytes() + bias_bytes() + static_cast<std::size_t>(threads_) * own_bytes();
  }

  void bind(std::byte* workspace, float* flat, float* bias) override {
    ArenaAllocator arena(workspace);
    weights_ = arena.take<BFloat16>(weight_bytes());
    padded_bias_ = arena.take<float>(bias_bytes());
    own_ = arena.take(0);
    matrix_.flat = flat;
    bias_ = bias;
  }

  void run() override {
    if (bias_ != nullptr) {
      std::fill_n(padded_bias_, to_.padded_channels(), 0.0F);
      std::copy_n(bias_, to_.shape.channels, padded_bias_);
    }
    if (statistics_ != nullptr) statistics_->begin();
    const std::int64_t from_blocks = from_->blocks();
#pragma omp parallel num_threads(threads_)
    {
      kernels_.enter();
#pragma omp for schedule(static)
      for (std::int64_t i = 0; i < from_blocks * to_.blocks(); ++i) {
        const auto [from, to] = matrix_.block_at(i);
        convert_weights(from, to, weights_of(to) + from * cell_size, from_blocks * cell_size);
      }
      compute(own_ + static_cast<std::size_t>(omp_get_thread_num()) * own_bytes());
      kernels_.leave();
    }
    if (statistics_ != nullptr) statistics_->finish();
  }

 protected:
  /// `weight_cells`: per block of `from` and block of `to`.
  MapDirection(std::string_view algorithm, double arithmetic, const Resources& resources,
               std::unique_ptr<CellRows> from, const FeatureMap& to, const WeightMatrix& weights,
               std::int64_t weight_cells)
      : ConvolutionDirection(implementation_name(*resources.kernels, algorithm, *from), arithmetic),
        kernels_(*resources.kernels),
        threads_(resources.threads),
        from_(std::move(from)),
        to_(to),
        matrix_(weights),
        weight_cells_(weight_cells) {}

  /// Returns the bytes that each thread needs, a multiple of 64.
  virtual std::size_t own_bytes() const = 0;
  /// Writes the weight cells of a block of `from` and a block of `to`, `stride` values apart.
  virtual void convert_weights(std::int64_t from_block, std::int64_t to_block, BFloat16* cells,
                               std::int64_t stride) const = 0;
  /// Computes the map. Called by all threads, which share the work; `own`: memory of the thread.
  virtual void compute(std::byte* own) const = 0;

  /// Returns the weight cells [tap or frequency][block of from] of a block of `to`.
  BFloat16* weights_of(std::int64_t to_block) const {
    return weights_ + to_block * weight_cells_ * from_->blocks() * cell_size;
  }
  /// Returns the bias of a block of channels, 32 values; null if there is none.
  const float* bias_of(std::int64_t block) const {
    return bias_ != nullptr ? padded_bias_ + block * cell_channels : nullptr;
  }
  /// Calls write(sums), which adds the values that it writes to a block of channels to `sums`, if
  /// they are not null.
  template <class Write>
  void with_statistics(std::int64_t block, Write&& write) const {
    PartialSums sums;
    write(statistics_ != nullptr ? &sums : nullptr);
    if (statistics_ != nullptr)
      statistics_->add(omp_get_thread_num(), block * cell_channels, cell_channels, sums);
  }

  const Kernels& kernels_;
  int threads_;
  std::unique_ptr<CellRows> from_;
  const FeatureMap& to_;
  WeightMatrix matrix_;

 private:
  std::size_t weight_bytes() const {
    return static_cast<std::size_t>(from_->blocks() * to_.blocks() * weight_cells_ * cell_bytes);
  }
  std::size_t bias_bytes() const {
    return static_cast<std::size_t>(to_.padded_channels()) * sizeof(float);
  }

  std::int64_t weight_cells_;
  BFloat16* weights_ = nullptr;  // shared by the threads
  const float* bias_ = nullptr;
  float* padded_bias_ = nullptr;
  std::byte* own_ = nullptr;                           // of each thread
  std::unique_ptr<StatisticsAccumulator> statistics_;  // null: not computed
};

class DirectMapDirection final : public MapDirection {
 public:
  DirectMapDirection(const Resources& resources, std::unique_ptr<CellRows> from,
                     const FeatureMap& to, std::vector<AxisTaps> rows,
                     std::vector<AxisTaps> columns, const WeightMatrix& weights)
      : MapDirection("", 1, resources, std::move(from), to, weights, weights.taps()),
        rows_(std::move(rows)),
        columns_(std::move(columns)),
        bands_(make_bands(rows_, from_->bytes(), 0, resources.cached_bytes,
                          tasks_of(to, resources.threads, to.shape.height).row_parts())) {}

 private:
  /// Bytes of the copied rows of a thread.
  std::size_t own_bytes() const override {
    return from_->in_place() ? 0 : static_cast<std::size_t>(bands_.input_rows * from_->bytes());
  }

  void convert_weights(std::int64_t from_block, std::int64_t to_block, BFloat16* cells,
                       std::int64_t stride) const override {
    kernels_.pack_weights(matrix_, from_block, to_block, cells, stride);
  }

  void compute(std::byte* own) const override {
    const BlockTasks tasks = tasks_of(to_, threads_, bands_.count());
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < tasks.count(); ++task)
      run_bands(tasks.block(task), tasks.rows(task, bands_.count()),
                tasks.columns(task, to_.blocks()), reinterpret_cast<BFloat16*>(own));
  }

  void run_bands(std::int64_t image_block, Range bands, Range to_blocks, BFloat16* copies) const {
    std::int64_t read = 0;  // the first row that has not been read yet
    for (std::int64_t band = bands.first; band < bands.last; ++band) {
      const Range rows = bands_.range(band);
      const Range inputs = needed(rows_, rows);
      for (read = std::max(read, inputs.first); read < inputs.last && !from_->in_place(); ++read)
        from_->row(image_block, read, copy_of(copies, read));
      const NextCells next = next_cells(image_block, band, bands);
      const std::int64_t count = rows.last - rows.first;
      const std::int64_t work = (to_blocks.last - to_blocks.first) * count;
      for (std::int64_t i = 0; i < work; ++i) {
        const std::int64_t block = to_blocks.first + i / count;
        OutputRow output = work_of_row(image_block, rows.first + i % count, block, copies);
        output.next = next;
        output.next.lines = part_of(next.lines, i, work);
        with_statistics(block, [&](PartialSums* sums) {
          output.statistics = sums;
          kernels_.multiply(output);
        });
      }
    }
  }

  BFloat16* copy_of(BFloat16* copies, std::int64_t row) const {
    return copies + row % bands_.input_rows * (from_->bytes() / std::int64_t{sizeof(BFloat16)});
  }
  /// Returns the cells of a row that has been read.
  const BFloat16* cells_of(std::int64_t image_block, std::int64_t row, BFloat16* copies) const {
    return from_->in_place() ? from_->row(image_block, row, nullptr) : copy_of(copies, row);
  }

  /// Returns the cells that the next of the bands, or the first of them in the next block of
  /// images, needs in addition to those of `band`. Copied rows need no prefetching.
  NextCells next_cells(std::int64_t image_block, std::int64_t band, Range bands) const {
    if (!from_->in_place()) return {};
    Range rows;
    if (band + 1 < bands.last) {
      rows = needed(rows_, bands_.range(band + 1));
      rows.first = std::max(rows.first, needed(rows_, bands_.range(band)).last);
    } else if (image_block + 1 < to_.image_blocks()) {
      ++image_block;
      rows = needed(rows_, bands_.range(bands.first));
    }
    if (rows.first >= rows.last) return {};
    const CellStrides strides = from_->strides(image_block);
    const std::int64_t lines =
        (rows.last - rows.first) * from_->pixels() * strides.pixel / NextCells::line;
    return {.first = from_->row(image_block, rows.first, nullptr),
            .block_stride = strides.block,
            .block_lines = lines,
            .lines = {0, from_->blocks() * lines}};
  }

  OutputRow work_of_row(std::int64_t image_block, std::int64_t row, std::int64_t block,
                        BFloat16* copies) const {
    const AxisTaps& taps = rows_[static_cast<std::size_t>(row)];
    OutputRow output{.inputs = {},
                     .input_count = taps.count,
                     .strides = from_->strides(image_block),
                     .columns = &columns_,
                     .weights = weights_of(block),
                     .kernel = matrix_.kernel,
                     .blocks = from_->blocks(),
                     .bias = bias_of(block),
                     .to = output_row(to_, image_block, block, row),
                     .streams = is_streamed(to_),
                     .statistics = nullptr,
                     .next = {}};
    for (std::size_t i = 0; i < static_cast<std::size_t>(taps.count); ++i)
      output.inputs[i] = {cells_of(image_block, taps.taps[i].position, copies), taps.taps[i].tap};
    return output;
  }

  std::vector<AxisTaps> rows_, columns_;  // for the rows and columns of `to`
  Bands bands_;
};

/// Winograd's algorithm. A thread transforms the patches of some tiles of one row, for 32 images
/// and all channels, and computes all channels of these tiles, or some channels if there are more
/// threads than rows of tiles.
class WinogradMapDirection final : public MapDirection {
 public:
  WinogradMapDirection(const Resources& resources, std::unique_ptr<CellRows> from,
                       const FeatureMap& to, const WeightMatrix& weights, bool is_rotated)
      : MapDirection(winograd_name, winograd_arithmetic(to.shape), resources, std::move(from), to,
                     weights, frequencies),
        is_rotated_(is_rotated),
        tiles_(to.shape),
        // The other cached bytes are for the weights and the sums.
        tiles_at_once_(std::clamp<std::int64_t>(
            resources.cached_bytes / 4 / (frequencies * from_->blocks() * cell_bytes), 1,
            tiles_.columns)) {}

 private:
  // A cache line between the frequencies keeps those of one element out of the same cache set.

  /// Floats from the sums of one frequency to those of the next.
  static constexpr std::int64_t sums_stride = cell_size + cache_line;
  static constexpr std::size_t sums_bytes = sizeof(float) * frequencies * sums_stride;

  std::size_t input_bytes() const {
    return static_cast<std::size_t>(tiles_at_once_ * frequencies * frequency_stride(cell_images)) *
           sizeof(BFloat16);
  }
  std::size_t own_bytes() const override { return input_bytes() + sums_bytes; }

  void convert_weights(std::int64_t from_block, std::int64_t to_block, BFloat16* cells,
                       std::int64_t stride) const override {
    kernels_.transform_weights(matrix_, from_block, to_block, is_rotated_, cells, stride);
  }

  void compute(std::byte* own) const override {
    auto* const input = reinterpret_cast<BFloat16*>(own);
    auto* const sums = reinterpret_cast<float*>(own + input_bytes());
    const BlockTasks tasks = tasks_of(to_, threads_, tiles_.rows);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < tasks.count(); ++task) {
      const std::int64_t image_block = tasks.block(task);
      const Range part = tasks.rows(task, tiles_.rows);
      const Range blocks = tasks.columns(task, to_.blocks());
      for (std::int64_t row = part.first; row < part.last; ++row) {
        for (std::int64_t column = 0; column < tiles_.columns; column += tiles_at_once_) {
          const Range columns{column, std::min(column + tiles_at_once_, tiles_.columns)};
          transform_patches(image_block, row, columns, input);
          compute_tiles(image_block, row, columns, blocks, input, sums);
        }
      }
    }
  }

  /// Values from one frequency of a patch to the next. The cells have only the rows of `images`.
  std::int64_t frequency_stride(std::int64_t images) const {
    return from_->blocks() * images * cell_channels + cache_line;
  }

  /// Writes cells [tile][frequency][block of from], with the rows of the images that exist.
  void transform_patches(std::int64_t image_block, std::int64_t row, Range columns,
                         BFloat16* to) const {
    const std::int64_t blocks = from_->blocks(), images = to_.images_in_block(image_block);
    for (std::int64_t column = columns.first; column < columns.last; ++column) {
      PatchCells cells = patch<4>(*from_, image_block, to_.shape.height, row * tile_size - 1,
                                  column * tile_size - 1);
      for (std::int64_t block = 0; block < blocks; ++block, next_block(*from_, image_block, cells))
        kernels_.transform_input(cells, {0, images * cell_channels},
                                 to + block * images * cell_channels, frequency_stride(images));
      to += frequencies * frequency_stride(images);
    }
  }

  void compute_tiles(std::int64_t image_block, std::int64_t row, Range columns, Range to_blocks,
                     const BFloat16* input, float* sums) const {
    const std::int64_t images = to_.images_in_block(image_block);
    for (std::int64_t to_block = to_blocks.first; to_block < to_blocks.last; ++to_block) {
      with_statistics(to_block, [&](PartialSums* statistics) {
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
    const MapRow pixels = output_row(to_, image_block, to_block, y);
    OutputTile tile{.first_row = pixels,
                    .row_stride = to_.shape.width * pixels.pixel_stride,
                    .rows = std::min<std::int64_t>(tile_size, to_.shape.height - y),
                    .bias = bias_of(to_block),
                    .streams = is_streamed(to_),
                    .statistics = nullptr};
    tile.first_row.first += x * pixels.pixel_stride;
    tile.first_row.pixels = std::min<std::int64_t>(tile_size, to_.shape.width - x);
    return tile;
  }

  bool is_rotated_;
  TileGrid tiles_;
  std::int64_t tiles_at_once_;
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_map_direction(
    const Resources& resources, std::unique_ptr<CellRows> from, const FeatureMap& to,
    std::vector<AxisTaps> rows, std::vector<AxisTaps> columns, const WeightMatrix& weights) {
  return std::make_unique<DirectMapDirection>(resources, std::move(from), to, std::move(rows),
                                              std::move(columns), weights);
}

std::unique_ptr<ConvolutionDirection> make_winograd_map_direction(const Resources& resources,
                                                                  std::unique_ptr<CellRows> from,
                                                                  const FeatureMap& to,
                                                                  const WeightMatrix& weights,
                                                                  bool is_rotated) {
  return std::make_unique<WinogradMapDirection>(resources, std::move(from), to, weights,
                                                is_rotated);
}

}  // namespace lockstep::backend::cpu::cells
