#include <omp.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "directions.hpp"
#include "geometry.hpp"

namespace lockstep::backend::cpu::amx {

using core::BFloat16;

namespace {

/// Maps larger than this are written with non-temporal stores, because they would not stay in the
/// caches.
constexpr std::size_t streamed_bytes = 4 << 20;

/// Computes one map from the other: forward and backward data.
class MapDirection : public ConvolutionDirection {
 public:
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
        bands_(make_bands(rows_, row_bytes(from), 0,
                          {.cached_bytes = resources.cached_bytes,
                           .fewest_bands = ceil_div(resources.threads, image_blocks(to))})),
        implementation_(implementation_name(kernels_)) {}

  const std::string& implementation() const override { return implementation_; }

  std::size_t workspace_bytes() const override {
    return weight_bytes() + bias_bytes() + static_cast<std::size_t>(threads_) * own_bytes();
  }

  void bind(std::byte* workspace, float* flat, float* bias) override {
    ArenaAllocator arena(workspace);
    weights_ = reinterpret_cast<BFloat16*>(arena.take(weight_bytes()));
    padded_bias_ = reinterpret_cast<float*>(arena.take(bias_bytes()));
    own_ = arena.take(0);
    matrix_.flat = flat;
    bias_ = bias;
  }

  void run() override {
    const std::int64_t from_blocks = channel_blocks(from_), to_blocks = channel_blocks(to_);
    const std::int64_t images = image_blocks(to_);
    const std::int64_t bands = bands_.count();
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
    return ArenaAllocator::aligned(static_cast<std::size_t>(
        channel_blocks(from_) * channel_blocks(to_) * matrix_.taps * cell_bytes));
  }
  std::size_t bias_bytes() const {
    return ArenaAllocator::aligned(static_cast<std::size_t>(channel_blocks(to_) * cell_channels) *
                                   sizeof(float));
  }
  std::size_t own_bytes() const {
    return ArenaAllocator::aligned(static_cast<std::size_t>(bands_.input_rows * row_bytes(from_)));
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
      const RowRange rows = bands_.range(band);
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
  std::vector<AxisTaps> rows_, columns_;  // for the rows and columns of `to`
  WeightMatrix matrix_;
  Bands bands_;
  std::string implementation_;
  BFloat16* weights_ = nullptr;  // cells [block of to][tap][block of from], shared by the threads
  float* padded_bias_ = nullptr;
  std::byte* own_ = nullptr;  // rows of cells, one set per thread
  const float* bias_ = nullptr;
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_map_direction(
    const Resources& resources, const ConvolutionSizes& sizes, const FeatureMap& from,
    const FeatureMap& to, std::vector<AxisTaps> rows, std::vector<AxisTaps> columns,
    const WeightMatrix& weights) {
  return std::make_unique<MapDirection>(resources, sizes, from, to, std::move(rows),
                                        std::move(columns), weights);
}

}  // namespace lockstep::backend::cpu::amx
