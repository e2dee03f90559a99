// SPDX-License-Identifier: BSD-3-Clause
#include "map_direction.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

/// The direct algorithm: sums over the taps of the kernel.
class DirectMapDirection final : public MapDirection {
 public:
  DirectMapDirection(const Resources& resources, std::unique_ptr<CellRows> from,
                     const FeatureMap& to, std::vector<AxisTaps> rows,
                     std::vector<AxisTaps> columns, const WeightMatrix& weights)
      : MapDirection(resources.kernels->instructions(), "", 1, resources, std::move(from), to,
                     weights, weights.taps(), true),
        rows_(std::move(rows)),
        columns_(std::move(columns)),
        bands_(make_bands(rows_, from_->bytes(), 0, resources.cached_bytes,
                          tasks_of(to, resources.threads, to.shape.height).row_parts())) {}

 private:
  /// Bytes of the copied rows of a thread.
  std::size_t own_bytes() const override {
    return from_->in_place() ? 0 : static_cast<std::size_t>(bands_.input_rows * from_->bytes());
  }

  void convert_weights(std::int64_t from_block, std::int64_t to_block,
                       std::byte* weights) const override {
    kernels_.pack_weights(matrix_, from_block, to_block,
                          reinterpret_cast<BFloat16*>(weights) + from_block * cell_size,
                          weight_stride());
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
                     .weights = reinterpret_cast<const BFloat16*>(weights_of(block)),
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

}  // namespace

std::unique_ptr<ConvolutionDirection> make_map_direction(
    const Resources& resources, std::unique_ptr<CellRows> from, const FeatureMap& to,
    std::vector<AxisTaps> rows, std::vector<AxisTaps> columns, const WeightMatrix& weights) {
  return std::make_unique<DirectMapDirection>(resources, std::move(from), to, std::move(rows),
                                              std::move(columns), weights);
}

}  // namespace lockstep::backend::cpu::cells
