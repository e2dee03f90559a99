// SPDX-License-Identifier: BSD-3-Clause
#include <omp.h>

#include <algorithm>
#include <utility>

#include "directions.hpp"
#include "geometry.hpp"
#include "output_writer.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

/// Computes one map from the other: forward and backward data.
class MapDirection : public ConvolutionDirection {
 public:
  MapDirection(const Resources& resources, const ConvolutionSizes& sizes,
               std::unique_ptr<CellRows> from, const FeatureMap& to, std::vector<AxisTaps> rows,
               std::vector<AxisTaps> columns, const WeightMatrix& weights)
      : kernels_(*resources.kernels),
        threads_(resources.threads),
        kernel_(sizes.kernel),
        from_(std::move(from)),
        to_(to, resources.threads),
        rows_(std::move(rows)),
        columns_(std::move(columns)),
        matrix_(weights),
        bands_(make_bands(
            rows_, from_->bytes(), 0,
            {.cached_bytes = resources.cached_bytes,
             .fewest_bands = tasks_of(to, resources.threads, to.shape.height).row_parts()})),
        implementation_(direct_name(kernels_, *from_)) {}

  const std::string& implementation() const override { return implementation_; }

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
    const BlockTasks tasks = tasks_of(to_.map(), threads_, bands_.count());
    to_.begin();
#pragma omp parallel num_threads(threads_)
    {
      kernels_.enter();
#pragma omp for schedule(static)
      for (std::int64_t i = 0; i < from_blocks * to_blocks; ++i) {
        const auto [from, to] = matrix_.block_at(i);
        kernels_.pack_weights(matrix_, from, to, weights_of(to) + from * cell_size,
                              from_blocks * cell_size);
      }
      auto* const cells = reinterpret_cast<BFloat16*>(
          own_ + static_cast<std::size_t>(omp_get_thread_num()) * own_bytes());
#pragma omp for schedule(static)
      for (std::int64_t task = 0; task < tasks.count(); ++task)
        run_bands(tasks.block(task), tasks.rows(task, bands_.count()),
                  tasks.columns(task, to_blocks), cells);
      kernels_.leave();
    }
    to_.finish();
  }

 private:
  std::size_t weight_bytes() const {
    return ArenaAllocator::aligned(
        static_cast<std::size_t>(from_->blocks() * to_.blocks() * matrix_.taps * cell_bytes));
  }
  /// Bytes of the copied rows of a thread.
  std::size_t own_bytes() const {
    return from_->in_place() ? 0
                             : ArenaAllocator::aligned(
                                   static_cast<std::size_t>(bands_.input_rows * from_->bytes()));
  }
  BFloat16* weights_of(std::int64_t to_block) const {
    return weights_ + to_block * matrix_.taps * from_->blocks() * cell_size;
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
        to_.write(block, [&](PartialSums* sums) {
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
    } else if (image_block + 1 < image_blocks(to_.map())) {
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
                     .kernel = kernel_,
                     .blocks = from_->blocks(),
                     .bias = to_.bias(block),
                     .to = output_row(to_.map(), image_block, block, row),
                     .streams = is_streamed(to_.map()),
                     .statistics = nullptr,
                     .next = {}};
    for (std::size_t i = 0; i < static_cast<std::size_t>(taps.count); ++i)
      output.inputs[i] = {cells_of(image_block, taps.taps[i].position, copies), taps.taps[i].tap};
    return output;
  }

  const Kernels& kernels_;
  int threads_;
  std::int64_t kernel_;
  std::unique_ptr<CellRows> from_;
  OutputWriter to_;
  std::vector<AxisTaps> rows_, columns_;  // for the rows and columns of `to`
  WeightMatrix matrix_;
  Bands bands_;
  std::string implementation_;
  BFloat16* weights_ = nullptr;  // cells [block of to][tap][block of from], shared by the threads
  std::byte* own_ = nullptr;     // rows of cells, one set per thread
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_map_direction(
    const Resources& resources, const ConvolutionSizes& sizes, std::unique_ptr<CellRows> from,
    const FeatureMap& to, std::vector<AxisTaps> rows, std::vector<AxisTaps> columns,
    const WeightMatrix& weights) {
  return std::make_unique<MapDirection>(resources, sizes, std::move(from), to, std::move(rows),
                                        std::move(columns), weights);
}

}  // namespace lockstep::backend::cpu::cells
