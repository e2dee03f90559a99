#include "convolution.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels.hpp"
#include "tiles.hpp"

namespace lockstep::backend::cpu::amx {

using core::BFloat16;
using core::DataType;

namespace {

/// A map of more bytes is written past the caches, because the next operation would not find it
/// there.
constexpr std::size_t streamed_bytes = 4 << 20;

constexpr std::int64_t cell_bytes = cell_size * std::int64_t{sizeof(BFloat16)};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t channel_blocks(const FeatureMap& map) {
  return ceil_div(map.shape.channels, cell_channels);
}
std::int64_t image_blocks(const FeatureMap& map) { return ceil_div(map.images, cell_images); }
std::int64_t row_bytes(const FeatureMap& map) {
  return map.shape.width * channel_blocks(map) * cell_bytes;
}

/// Row `row` of the images of a block.
MapRow row_of(const FeatureMap& map, std::int64_t image_block, std::int64_t row) {
  const std::int64_t image = image_block * cell_images;
  const std::int64_t image_stride = map.shape.pixels() * map.shape.channels;
  return {.first = map.as<BFloat16>() + image * image_stride +
                   row * map.shape.width * map.shape.channels,
          .image_stride = image_stride,
          .images = std::min(cell_images, map.images - image),
          .pixels = map.shape.width,
          .channels = map.shape.channels};
}

/// For each position of the convolution's output along one axis: the positions of its input.
std::vector<AxisTaps> inputs_of_outputs(const ConvolutionSizes& sizes, std::int64_t outputs,
                                        std::int64_t inputs) {
  std::vector<AxisTaps> axis(static_cast<std::size_t>(outputs));
  for (std::int64_t output = 0; output < outputs; ++output) {
    AxisTaps& taps = axis[static_cast<std::size_t>(output)];
    for (std::int64_t tap = 0; tap < sizes.kernel; ++tap) {
      const std::int64_t input = output * sizes.stride - sizes.padding + tap;
      if (input >= 0 && input < inputs)
        taps.taps[static_cast<std::size_t>(taps.count++)] = {input, tap};
    }
  }
  return axis;
}

/// The reverse: for each position of the input, the positions of the output that it contributes to.
std::vector<AxisTaps> outputs_of_inputs(const ConvolutionSizes& sizes, std::int64_t outputs,
                                        std::int64_t inputs) {
  std::vector<AxisTaps> axis(static_cast<std::size_t>(inputs));
  const std::vector<AxisTaps> forward = inputs_of_outputs(sizes, outputs, inputs);
  for (std::int64_t output = 0; output < outputs; ++output) {
    const AxisTaps& from = forward[static_cast<std::size_t>(output)];
    for (std::int64_t i = 0; i < from.count; ++i) {
      const AxisTap& tap = from.taps[static_cast<std::size_t>(i)];
      AxisTaps& to = axis[static_cast<std::size_t>(tap.position)];
      to.taps[static_cast<std::size_t>(to.count++)] = {output, tap.tap};
    }
  }
  return axis;
}

/// The rows of the input that rows [first, last) of the output need: [first, last) again.
struct RowRange {
  std::int64_t first = 0, last = 0;
};
RowRange needed(const std::vector<AxisTaps>& axis, RowRange rows) {
  RowRange range{.first = std::numeric_limits<std::int64_t>::max(), .last = 0};
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const AxisTaps& taps = axis[static_cast<std::size_t>(row)];
    for (std::int64_t i = 0; i < taps.count; ++i) {
      const std::int64_t position = taps.taps[static_cast<std::size_t>(i)].position;
      range.first = std::min(range.first, position);
      range.last = std::max(range.last, position + 1);
    }
  }
  return range.last == 0 ? RowRange{} : range;
}

/// The output's rows in bands, and how many rows of the input are in memory at a time. A row's
/// place is its number modulo `input_rows`, so that a band keeps the rows that it shares with the
/// one before.
struct Bands {
  std::int64_t rows = 0;  ///< of the output in a band
  std::int64_t input_rows = 0;
};

std::int64_t most_input_rows(const std::vector<AxisTaps>& axis, std::int64_t rows) {
  const auto all = static_cast<std::int64_t>(axis.size());
  std::int64_t most = 1;
  for (std::int64_t first = 0; first < all; first += rows) {
    const RowRange range = needed(axis, {first, std::min(first + rows, all)});
    most = std::max(most, range.last - range.first);
  }
  return most;
}

/// As many rows as fit into `cached_bytes`, in bands of about the same size.
Bands make_bands(const std::vector<AxisTaps>& axis, std::int64_t input_row_bytes,
                 std::int64_t output_row_bytes, std::int64_t cached_bytes) {
  const auto all = static_cast<std::int64_t>(axis.size());
  const auto fits = [&](std::int64_t rows) {
    return most_input_rows(axis, rows) * input_row_bytes + rows * output_row_bytes <= cached_bytes;
  };
  std::int64_t bands = 1, rows = all;
  while (rows > 1 && !fits(rows)) rows = ceil_div(all, ++bands);
  return {rows, most_input_rows(axis, rows)};
}

std::string implementation_name(const Kernels& kernels) {
  return kernels.is_emulated() ? "amx 32 images (emulated)" : "amx 32 images";
}

/// From one map to the other: forward, and backward data.
class MapDirection : public ConvolutionDirection {
 public:
  /// `weights` without its memory; its rows are the channels of `from`, its columns those of `to`.
  MapDirection(const Resources& resources, const ConvolutionSizes& sizes, const FeatureMap& from,
               const FeatureMap& to, std::vector<AxisTaps> rows, std::vector<AxisTaps> columns,
               const WeightMatrix& weights)
      : kernels_(*resources.kernels),
        threads_(resources.threads),
        kernel_(sizes.kernel),
        from_(from),
        to_(to),
        rows_(std::move(rows)),
        columns_(std::move(columns)),
        matrix_(weights),
        bands_(make_bands(rows_, row_bytes(from), 0, resources.cached_bytes)),
        implementation_(implementation_name(kernels_)) {}

  const std::string& implementation() const override { return implementation_; }

  std::size_t scratch_bytes() const override {
    return weight_bytes() + bias_bytes() + static_cast<std::size_t>(threads_) * own_bytes();
  }

  void bind(std::byte* scratch, float* flat, float* bias) override {
    Carver carver(scratch);
    weights_ = reinterpret_cast<BFloat16*>(carver.take(weight_bytes()));
    padded_bias_ = reinterpret_cast<float*>(carver.take(bias_bytes()));
    own_ = carver.take(0);
    matrix_.flat = flat;
    bias_ = bias;
  }

  void run() override {
    const std::int64_t from_blocks = channel_blocks(from_), to_blocks = channel_blocks(to_);
    const std::int64_t images = image_blocks(to_);
    const std::int64_t bands = ceil_div(to_.shape.height, bands_.rows);
    const std::int64_t parts = std::min(bands, threads_ / std::gcd(images, std::int64_t{threads_}));
    if (bias_ != nullptr) {
      std::fill_n(padded_bias_, to_blocks * cell_channels, 0.0F);
      std::copy_n(bias_, to_.shape.channels, padded_bias_);
    }
#pragma omp parallel num_threads(threads_)
    {
      kernels_.enter();
#pragma omp for collapse(2) schedule(static)
      for (std::int64_t to = 0; to < to_blocks; ++to) {
        for (std::int64_t from = 0; from < from_blocks; ++from)
          kernels_.pack_weights(matrix_, from, to, weights_of(to) + from * cell_size,
                                from_blocks * cell_size);
      }
      auto* const cells = reinterpret_cast<BFloat16*>(
          own_ + static_cast<std::size_t>(omp_get_thread_num()) * own_bytes());
#pragma omp for schedule(static)
      for (std::int64_t task = 0; task < images * parts; ++task) {
        const std::int64_t part = task % parts;
        run_bands(task / parts, {part * bands / parts, (part + 1) * bands / parts}, cells);
      }
      kernels_.leave();
    }
  }

 private:
  std::size_t weight_bytes() const {
    return Carver::aligned(static_cast<std::size_t>(channel_blocks(from_) * channel_blocks(to_) *
                                                    matrix_.taps * cell_bytes));
  }
  std::size_t bias_bytes() const {
    return Carver::aligned(static_cast<std::size_t>(channel_blocks(to_) * cell_channels) *
                           sizeof(float));
  }
  std::size_t own_bytes() const {
    return Carver::aligned(static_cast<std::size_t>(bands_.input_rows * row_bytes(from_)));
  }
  BFloat16* weights_of(std::int64_t to_block) const {
    return weights_ + to_block * matrix_.taps * channel_blocks(from_) * cell_size;
  }
  BFloat16* row_cells(BFloat16* cells, std::int64_t row) const {
    return cells + row % bands_.input_rows * (row_bytes(from_) / std::int64_t{sizeof(BFloat16)});
  }

  void run_bands(std::int64_t image_block, RowRange bands, BFloat16* cells) const {
    std::int64_t packed = 0;  // the first row that is not packed yet
    for (std::int64_t band = bands.first; band < bands.last; ++band) {
      const RowRange rows{band * bands_.rows, std::min((band + 1) * bands_.rows, to_.shape.height)};
      const RowRange inputs = needed(rows_, rows);
      for (packed = std::max(packed, inputs.first); packed < inputs.last; ++packed)
        kernels_.pack(row_of(from_, image_block, packed), row_cells(cells, packed));
      for (std::int64_t block = 0; block < channel_blocks(to_); ++block) {
        for (std::int64_t row = rows.first; row < rows.last; ++row)
          kernels_.multiply(output_row(image_block, row, block, cells));
      }
    }
  }

  OutputRow output_row(std::int64_t image_block, std::int64_t row, std::int64_t block,
                       BFloat16* cells) const {
    const AxisTaps& taps = rows_[static_cast<std::size_t>(row)];
    OutputRow output{
        .inputs = {},
        .input_count = taps.count,
        .columns = &columns_,
        .weights = weights_of(block),
        .kernel = kernel_,
        .blocks = channel_blocks(from_),
        .bias = bias_ != nullptr ? padded_bias_ + block * cell_channels : nullptr,
        .to = row_of(to_, image_block, row),
        .channels = std::min(cell_channels, to_.shape.channels - block * cell_channels),
        .streams = to_.bytes() > streamed_bytes && to_.shape.channels % cell_channels == 0};
    output.to.first += block * cell_channels;
    for (std::size_t i = 0; i < static_cast<std::size_t>(taps.count); ++i)
      output.inputs[i] = {row_cells(cells, taps.taps[i].position), taps.taps[i].tap};
    return output;
  }

  const Kernels& kernels_;
  int threads_;
  std::int64_t kernel_;
  const FeatureMap& from_;
  const FeatureMap& to_;
  std::vector<AxisTaps> rows_, columns_;  // of `to`
  WeightMatrix matrix_;
  Bands bands_;
  std::string implementation_;
  BFloat16* weights_ = nullptr;  // cells [block of to][tap][block of from], shared by the threads
  float* padded_bias_ = nullptr;
  std::byte* own_ = nullptr;  // rows of cells, each thread has its own
  const float* bias_ = nullptr;
};

class WeightsDirection : public ConvolutionDirection {
 public:
  WeightsDirection(const Resources& resources, const ConvolutionSizes& sizes,
                   const FeatureMap& source, const FeatureMap& destination)
      : kernels_(*resources.kernels),
        threads_(resources.threads),
        kernel_(sizes.kernel),
        source_(source),
        destination_(destination),
        rows_(inputs_of_outputs(sizes, sizes.out_height, sizes.in_height)),
        columns_(inputs_of_outputs(sizes, sizes.out_width, sizes.in_width)),
        bands_(
            make_bands(rows_, row_bytes(source), row_bytes(destination), resources.cached_bytes)),
        implementation_(implementation_name(kernels_)),
        pairs_(static_cast<std::size_t>(threads_)) {
    for (auto& pairs : pairs_) pairs.reserve(static_cast<std::size_t>(bands_.rows));
  }

  const std::string& implementation() const override { return implementation_; }

  std::size_t scratch_bytes() const override {
    return source_bytes() + gradient_bytes() + sums_bytes() +
           static_cast<std::size_t>(threads_) * own_bytes();
  }

  void bind(std::byte* scratch, float* flat, float* bias) override {
    Carver carver(scratch);
    source_cells_ = reinterpret_cast<BFloat16*>(carver.take(source_bytes()));
    gradient_cells_ = reinterpret_cast<BFloat16*>(carver.take(gradient_bytes()));
    sums_ = reinterpret_cast<float*>(carver.take(sums_bytes()));
    own_ = carver.take(0);
    flat_ = flat;
    bias_ = bias;
  }

  void run() override {
    const std::int64_t bands = band_count();
#pragma omp parallel num_threads(threads_)
    {
      kernels_.enter();
      std::fill_n(bias_sums(omp_get_thread_num()), channel_blocks(destination_) * cell_channels,
                  0.0F);
      std::int64_t step = 0;
      for (std::int64_t image_block = 0; image_block < image_blocks(source_); ++image_block) {
        std::int64_t packed = 0;
        for (std::int64_t band = 0; band < bands; ++band) {
          const RowRange rows{band * bands_.rows,
                              std::min((band + 1) * bands_.rows, destination_.shape.height)};
          const RowRange inputs = needed(rows_, rows);
          pack(image_block, {std::max(packed, inputs.first), inputs.last}, rows);
          packed = std::max(packed, inputs.last);
          multiply(rows, step);
          ++step;
        }
      }
      kernels_.leave();
    }
    if (bias_ != nullptr) {
      std::fill_n(bias_, destination_.shape.channels, 0.0F);
      for (int thread = 0; thread < threads_; ++thread) {
        for (std::int64_t k = 0; k < destination_.shape.channels; ++k)
          bias_[k] += bias_sums(thread)[k];
      }
    }
  }

 private:
  std::int64_t source_row_cells() const { return row_bytes(source_) / cell_bytes; }
  std::int64_t gradient_row_cells() const { return row_bytes(destination_) / cell_bytes; }
  std::size_t source_bytes() const {
    return Carver::aligned(static_cast<std::size_t>(bands_.input_rows * row_bytes(source_)));
  }
  std::size_t gradient_bytes() const {
    return Carver::aligned(static_cast<std::size_t>(bands_.rows * row_bytes(destination_)));
  }
  std::int64_t taps() const { return kernel_ * kernel_; }
  std::int64_t band_count() const { return ceil_div(destination_.shape.height, bands_.rows); }
  std::int64_t steps() const { return image_blocks(source_) * band_count(); }
  /// The work of one step: a block of the destination's channels and half a block of the source's.
  std::int64_t source_halves() const { return ceil_div(source_.shape.channels, tile_rows); }
  std::int64_t tasks() const { return channel_blocks(destination_) * source_halves(); }
  static constexpr std::int64_t tap_sums = 2 * tile_floats;  ///< of a task, for one tap
  /// Sums are kept from step to step; with a single step each thread needs those of one task.
  std::size_t sums_bytes() const {
    const std::int64_t kept = steps() > 1 ? tasks() : threads_;
    return Carver::aligned(static_cast<std::size_t>(kept * taps() * tap_sums) * sizeof(float));
  }
  std::size_t staged_bytes() const {
    return Carver::aligned(
        static_cast<std::size_t>(std::max(row_bytes(source_), row_bytes(destination_))));
  }
  std::size_t bias_bytes() const {
    return Carver::aligned(static_cast<std::size_t>(channel_blocks(destination_) * cell_channels) *
                           sizeof(float));
  }
  std::size_t own_bytes() const { return staged_bytes() + bias_bytes(); }
  BFloat16* staged(int thread) const {
    return reinterpret_cast<BFloat16*>(own_ + static_cast<std::size_t>(thread) * own_bytes());
  }
  float* bias_sums(int thread) const {
    return reinterpret_cast<float*>(own_ + static_cast<std::size_t>(thread) * own_bytes() +
                                    staged_bytes());
  }
  BFloat16* source_row(std::int64_t row) const {
    return source_cells_ + row % bands_.input_rows * source_row_cells() * cell_size;
  }
  BFloat16* gradient_row(std::int64_t row) const {
    return gradient_cells_ + row % bands_.rows * gradient_row_cells() * cell_size;
  }
  float* sums_of(std::int64_t task) const {
    return sums_ + (steps() > 1 ? task : omp_get_thread_num()) * taps() * tap_sums;
  }

  // Both are called by all threads, share the work among them, and end with a barrier.
  void pack(std::int64_t image_block, RowRange source_rows, RowRange gradient_rows) const {
    const int thread = omp_get_thread_num();
    BFloat16* const plain = staged(thread);
#pragma omp for schedule(static) nowait
    for (std::int64_t row = source_rows.first; row < source_rows.last; ++row) {
      kernels_.pack(row_of(source_, image_block, row), plain);
      for (std::int64_t cell = 0; cell < source_row_cells(); ++cell)
        kernels_.interleave(plain + cell * cell_size, source_row(row) + cell * cell_size);
    }
#pragma omp for schedule(static)
    for (std::int64_t row = gradient_rows.first; row < gradient_rows.last; ++row) {
      kernels_.pack(row_of(destination_, image_block, row), plain);
      for (std::int64_t cell = 0; cell < gradient_row_cells(); ++cell) {
        kernels_.transpose(plain + cell * cell_size, gradient_row(row) + cell * cell_size);
        if (bias_ != nullptr)
          kernels_.add_images(
              plain + cell * cell_size,
              bias_sums(thread) + cell % channel_blocks(destination_) * cell_channels);
      }
    }
  }

  void multiply(RowRange rows, std::int64_t step) {
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < tasks(); ++task) {
      const std::int64_t block = task / source_halves(), half = task % source_halves();
      for (std::int64_t kernel_row = 0; kernel_row < kernel_; ++kernel_row)
        kernels_.multiply(GradientRows{.rows = &pairs_of(rows, kernel_row, block, half),
                                       .columns = &columns_,
                                       .kernel = kernel_,
                                       .gradient_blocks = channel_blocks(destination_),
                                       .source_blocks = channel_blocks(source_),
                                       .adds = step > 0,
                                       .sums = sums_of(task) + kernel_row * kernel_ * tap_sums});
      if (step + 1 == steps()) write_gradient(block, half, sums_of(task));
    }
  }

  /// The rows of the gradient with the rows of the source that a row of the kernel connects them
  /// to.
  const std::vector<GradientRows::Rows>& pairs_of(RowRange rows, std::int64_t kernel_row,
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

  /// Sums [tap][half of k][k][c] of one task to KCRS.
  void write_gradient(std::int64_t block, std::int64_t half, const float* sums) const {
    const std::int64_t channels = source_.shape.channels, c = half * tile_rows;
    const std::int64_t count = std::min(tile_rows, channels - c);
    const std::int64_t last = std::min((block + 1) * cell_channels, destination_.shape.channels);
    for (std::int64_t k = block * cell_channels; k < last; ++k) {
      const float* const from = sums + k % cell_channels * tile_rows;
      float* const to = flat_ + (k * channels + c) * taps();
      if (kernel_ == 3) {
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

  const Kernels& kernels_;
  int threads_;
  std::int64_t kernel_;
  const FeatureMap& source_;
  const FeatureMap& destination_;
  std::vector<AxisTaps> rows_, columns_;  // of the destination
  Bands bands_;
  std::string implementation_;
  std::vector<std::vector<GradientRows::Rows>> pairs_;  // of a task, each thread has its own
  BFloat16* source_cells_ = nullptr;                    // interleaved, shared by the threads
  BFloat16* gradient_cells_ = nullptr;                  // transposed, shared by the threads
  float* sums_ = nullptr;
  std::byte* own_ = nullptr;  // a row of plain cells and sums for the bias, each thread has its own
  float* flat_ = nullptr;
  float* bias_ = nullptr;
};

const Kernels& default_kernels() {
  static const std::unique_ptr<Kernels> kernels =
      has_hardware_tiles() ? make_hardware_kernels() : make_emulated_kernels();
  return *kernels;
}

}  // namespace

bool fits(const ConvolutionSizes& sizes, const FeatureMap& source, const FeatureMap& destination) {
  const auto has_cells = [](const FeatureMap& map) {
    return map.type == DataType::bfloat16 && map.layout == MapLayout::channels_last &&
           map.shape.channels >= tile_rows;
  };
  return (sizes.kernel == 1 || sizes.kernel == 3) && has_cells(source) && has_cells(destination);
}

bool is_fast() { return has_hardware_tiles(); }

std::unique_ptr<ConvolutionDirection> make(Direction direction, int threads,
                                           const ConvolutionSizes& sizes, const FeatureMap& source,
                                           const FeatureMap& destination) {
  return make(direction, Resources{.kernels = &default_kernels(), .threads = threads}, sizes,
              source, destination);
}

std::unique_ptr<ConvolutionDirection> make(Direction direction, const Resources& resources,
                                           const ConvolutionSizes& sizes, const FeatureMap& source,
                                           const FeatureMap& destination) {
  const std::int64_t taps = sizes.kernel * sizes.kernel;
  const std::int64_t sources = sizes.in_channels, destinations = sizes.out_channels;
  switch (direction) {
    case Direction::forward:
      return std::make_unique<MapDirection>(
          resources, sizes, source, destination,
          inputs_of_outputs(sizes, sizes.out_height, sizes.in_height),
          inputs_of_outputs(sizes, sizes.out_width, sizes.in_width),
          WeightMatrix{.row_stride = taps,
                       .column_stride = sources * taps,
                       .rows = sources,
                       .columns = destinations,
                       .taps = taps});
    case Direction::backward_data:
      return std::make_unique<MapDirection>(
          resources, sizes, destination, source,
          outputs_of_inputs(sizes, sizes.out_height, sizes.in_height),
          outputs_of_inputs(sizes, sizes.out_width, sizes.in_width),
          WeightMatrix{.row_stride = sources * taps,
                       .column_stride = taps,
                       .rows = destinations,
                       .columns = sources,
                       .taps = taps});
    case Direction::backward_weights: break;
  }
  return std::make_unique<WeightsDirection>(resources, sizes, source, destination);
}

}  // namespace lockstep::backend::cpu::amx
