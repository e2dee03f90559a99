// SPDX-License-Identifier: BSD-3-Clause
#include "directions.hpp"

#include "tiles.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

class DirectWeightsDirection final : public WeightsDirection {
 public:
  DirectWeightsDirection(const Resources& resources, const ConvolutionSizes& sizes,
                         std::unique_ptr<CellRows> source, std::unique_ptr<CellRows> destination)
      : WeightsDirection(resources.kernels->instructions(), "", 1, resources, sizes,
                         std::move(source), std::move(destination)),
        rows_(inputs_of_outputs(sizes, sizes.out_height, sizes.in_height)),
        columns_(inputs_of_outputs(sizes, sizes.out_width, sizes.in_width)),
        // A thread reads the cells of all source channels and of its part of the destination
        // channels.
        bands_(make_bands(rows_, source_->bytes(), destination_->bytes() / resources.threads,
                          resources.cached_bytes)),
        pairs_(static_cast<std::size_t>(threads_)) {
    for (auto& pairs : pairs_) pairs.reserve(static_cast<std::size_t>(bands_.rows));
  }

 private:
  /// Bytes of a row of plain cells of the source, if it is copied.
  std::size_t own_bytes() const override {
    return source_->in_place() ? 0 : static_cast<std::size_t>(source_->bytes());
  }
  std::size_t shared_bytes() const override {
    return source_bytes() + gradient_bytes() + sums_bytes();
  }
  void bind_shared(ArenaAllocator& arena) override {
    source_cells_ = arena.take<BFloat16>(source_bytes());
    gradient_cells_ = arena.take<BFloat16>(gradient_bytes());
    sums_ = arena.take<float>(sums_bytes());
  }

  void compute() override {
    std::int64_t step = 0;
    for (std::int64_t image_block = 0; image_block < image_blocks(); ++image_block) {
      std::int64_t packed = 0;
      for (std::int64_t band = 0; band < bands_.count(); ++band) {
        const Range rows = bands_.range(band);
        const Range inputs = needed(rows_, rows);
        pack(image_block, {std::max(packed, inputs.first), inputs.last}, rows);
        packed = std::max(packed, inputs.last);
        multiply(image_block, rows, step);
        ++step;
      }
    }
  }

  std::size_t source_bytes() const {
    return static_cast<std::size_t>(bands_.input_rows * source_->bytes());
  }
  std::size_t gradient_bytes() const {
    return static_cast<std::size_t>(bands_.rows * destination_->bytes());
  }
  std::int64_t image_blocks() const { return ceil_div(sizes_.images, cell_images); }
  std::int64_t images_of(std::int64_t image_block) const {
    return images_in_block(sizes_.images, image_block);
  }
  std::int64_t taps() const { return sizes_.kernel * sizes_.kernel; }
  std::int64_t steps() const { return image_blocks() * bands_.count(); }
  /// A step processes one band of one block of images. It is divided into tasks: each combines a
  /// block of the destination channels with half a block of the source channels.
  std::int64_t source_halves() const { return ceil_div(sizes_.in_channels, tile_rows); }
  std::int64_t tasks() const { return destination_->blocks() * source_halves(); }
  static constexpr std::int64_t tap_sums = 2 * tile_floats;  ///< floats per task and tap
  /// The sums of all tasks are stored from step to step; if there is only one step, each thread
  /// needs those of one task only.
  std::size_t sums_bytes() const {
    const std::int64_t stored = steps() > 1 ? tasks() : threads_;
    return static_cast<std::size_t>(stored * taps() * tap_sums) * sizeof(float);
  }
  BFloat16* source_row(std::int64_t row) const {
    return source_cells_ + row % bands_.input_rows * source_->cells() * cell_size;
  }
  BFloat16* gradient_row(std::int64_t row) const {
    return gradient_cells_ + row % bands_.rows * destination_->cells() * cell_size;
  }
  float* sums_of(std::int64_t task) const {
    return sums_ + (steps() > 1 ? task : omp_get_thread_num()) * taps() * tap_sums;
  }

  // `pack` and `multiply` are called by all threads, share the work among them, and end with a
  // barrier.
  void pack(std::int64_t image_block, Range source_rows, Range gradient_rows) const {
    const std::int64_t source_count =
        std::max<std::int64_t>(source_rows.last - source_rows.first, 0);
    const std::int64_t count = source_count + gradient_rows.last - gradient_rows.first;
#pragma omp for schedule(static, 1)
    for (std::int64_t i = 0; i < count; ++i) {
      if (i < source_count) {
        pack_source(image_block, source_rows.first + i);
      } else {
        pack_gradient(image_block, gradient_rows.first + i - source_count);
      }
    }
  }

  void pack_source(std::int64_t image_block, std::int64_t row) const {
    BFloat16* const to = source_row(row);
    const std::int64_t images = images_of(image_block);
    for_each_cell(*source_, image_block, row,
                  [&](const BFloat16* cell, std::int64_t index, std::int64_t) {
                    kernels_.interleave(cell, images, to + index * cell_size);
                  });
  }

  void pack_gradient(std::int64_t image_block, std::int64_t row) const {
    BFloat16* const to = gradient_row(row);
    const std::int64_t images = images_of(image_block);
    for_each_cell(*destination_, image_block, row,
                  [&](const BFloat16* cell, std::int64_t index, std::int64_t block) {
                    kernels_.transpose(cell, images, to + index * cell_size);
                    add_to_bias(block, cell, images);
                  });
  }

  /// Calls work(plain cell, its index in the order (pixel, block), block of channels) for each cell
  /// of a row, in the order of the memory of a blocked map.
  template <class Work>
  void for_each_cell(const CellRows& rows, std::int64_t image_block, std::int64_t row,
                     Work&& work) const {
    const BFloat16* const cells = rows.row(image_block, row, own());
    const CellStrides strides = rows.strides(image_block);
    for (std::int64_t block = 0; block < rows.blocks(); ++block) {
      for (std::int64_t pixel = 0; pixel < rows.pixels(); ++pixel)
        work(cells + pixel * strides.pixel + block * strides.block, pixel * rows.blocks() + block,
             block);
    }
  }

  void multiply(std::int64_t image_block, Range rows, std::int64_t step) {
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < tasks(); ++task) {
      const std::int64_t block = task / source_halves(), half = task % source_halves();
      for (std::int64_t kernel_row = 0; kernel_row < sizes_.kernel; ++kernel_row)
        kernels_.multiply(
            GradientRows{.rows = &pairs_of(rows, kernel_row, block, half),
                         .columns = &columns_,
                         .kernel = sizes_.kernel,
                         .gradient_blocks = destination_->blocks(),
                         .source_blocks = source_->blocks(),
                         .images = images_of(image_block),
                         .adds = step > 0,
                         .sums = sums_of(task) + kernel_row * sizes_.kernel * tap_sums});
      if (step + 1 == steps()) write_gradient(block, half, sums_of(task));
    }
  }

  /// Returns the pairs of gradient rows and source rows that row `kernel_row` of the kernel
  /// connects.
  const std::vector<GradientRows::Rows>& pairs_of(Range rows, std::int64_t kernel_row,
                                                  std::int64_t block, std::int64_t half) {
    auto& pairs = pairs_[static_cast<std::size_t>(omp_get_thread_num())];
    pairs.clear();
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      const AxisTaps& taps = rows_[static_cast<std::size_t>(row)];
      for (std::size_t i = 0; i < static_cast<std::size_t>(taps.count); ++i) {
        if (taps.taps[i].tap == kernel_row)
          pairs.push_back({gradient_row(row) + block * cell_size,
                           source_row(taps.taps[i].position) + half * tile_halves});
      }
    }
    return pairs;
  }

  /// Writes the sums [tap][half of k][k][c] of one task to the gradient (KCRS).
  void write_gradient(std::int64_t block, std::int64_t half, const float* sums) const {
    const std::int64_t channels = sizes_.in_channels, c = half * tile_rows;
    const std::int64_t count = std::min(tile_rows, channels - c);
    const std::int64_t last = std::min((block + 1) * cell_channels, sizes_.out_channels);
    for (std::int64_t k = block * cell_channels; k < last; ++k) {
      const float* const from = sums + k % cell_channels * tile_rows;
      float* const to = flat_ + (k * channels + c) * taps();
      if (sizes_.kernel == 3) {
        transpose_taps<9>(from, count, to);
      } else {
        transpose_taps<1>(from, count, to);
      }
    }
  }

  template <std::int64_t Taps>
  static void transpose_taps(const float* from, std::int64_t count, float* to) {
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t tap = 0; tap < Taps; ++tap) to[i * Taps + tap] = from[tap * tap_sums + i];
    }
  }

  std::vector<AxisTaps> rows_, columns_;  // for the destination
  Bands bands_;
  std::vector<std::vector<GradientRows::Rows>> pairs_;  // for a task; one per thread
  // Shared by the threads.
  BFloat16* source_cells_ = nullptr;    // interleaved
  BFloat16* gradient_cells_ = nullptr;  // transposed
  float* sums_ = nullptr;
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_weights_direction(
    const Resources& resources, const ConvolutionSizes& sizes, std::unique_ptr<CellRows> source,
    std::unique_ptr<CellRows> destination) {
  return std::make_unique<DirectWeightsDirection>(resources, sizes, std::move(source),
                                                  std::move(destination));
}

}  // namespace lockstep::backend::cpu::cells
