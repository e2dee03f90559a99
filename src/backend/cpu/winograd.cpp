#include "winograd.hpp"

#include <omp.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>

#include "division.hpp"
#include "fused_statistics.hpp"
#include "winograd_kernels.hpp"

namespace lockstep::backend::cpu::winograd {

namespace {

/// Bytes of transformed maps per thread in a block of tiles; they should stay in the last-level
/// cache. A block has at least `fewest_tiles` tiles: the weights are transformed again
/// for each block, and for fewer tiles this would take longer than the products.
constexpr std::int64_t cached_bytes = 3 << 20;
constexpr std::int64_t fewest_tiles = 128;

/// Tiles that are multiplied at once; their products should stay in the L2 cache.
constexpr std::int64_t product_tiles = 48;

/// Channels of the destination whose weight gradients a thread computes at once; their products
/// should stay in the L2 cache.
constexpr std::int64_t product_channels = 64;

/// Tiles that a thread transforms at a time.
constexpr std::int64_t transform_tiles = 8;

/// Returns the number of tiles of a block that `threads` threads process together; all blocks have
/// about the same size, and their number is a multiple of `multiple` if there are enough tiles.
std::int64_t block_of(const Tiling& tiling, std::int64_t channels, int threads, int multiple = 1) {
  const std::int64_t bytes_per_tile = frequencies * channels * std::int64_t{sizeof(float)};
  const std::int64_t most = std::max(fewest_tiles, threads * cached_bytes / bytes_per_tile);
  const std::int64_t blocks = ceil_div(ceil_div(tiling.count, most), multiple) * multiple;
  const std::int64_t even = ceil_div(tiling.count, blocks);
  return std::min(tiling.count, ceil_div(even, transform_tiles) * transform_tiles);
}

Panels panels_of(std::int64_t entries, std::int64_t channels, int lanes) {
  return {.entries = entries, .panels = channels / panel_lanes(lanes), .vector_lanes = lanes};
}

std::string implementation_name(int lanes) {
  return "winograd 4x4 (" + std::to_string(lanes) + " lanes)";
}

/// Returns the ratio of multiplications to those of the direct algorithm: 1/4, or more if the tiles
/// extend beyond the map.
double arithmetic_of(const Tiling& tiling, const FeatureMap& map) {
  return static_cast<double>(frequencies * tiling.count) /
         static_cast<double>(9 * map.images * map.shape.pixels());
}

int lanes_for(const FeatureMap& source, const FeatureMap& destination) {
  return vector_lanes(std::gcd(source.lanes(), destination.lanes()));
}

/// Computes one map from the other: forward and backward data. If there are enough tiles, each
/// thread computes blocks of its own. Otherwise all threads share each block: they transform its
/// input together, and each of them computes some panels of the output.
class MapDirection : public ConvolutionDirection {
 public:
  MapDirection(int threads, const FeatureMap& from, const FeatureMap& to, const Kernels& kernels)
      : threads_(threads),
        from_(from),
        to_(to),
        kernels_(kernels),
        tiling_(tiling_of(to)),
        is_shared_(tiling_.count < threads * fewest_tiles),
        block_(is_shared_ ? block_of(tiling_, from.shape.channels, threads)
                          : block_of(tiling_, from.shape.channels, 1, threads)),
        implementation_(implementation_name(lanes_for(from, to))),
        input_(panels_of(block_, from.shape.channels, lanes_for(from, to))),
        weights_(panels_of(from.shape.channels, input_.lanes(), input_.vector_lanes)),
        products_(panels_of(std::min(block_, product_tiles), input_.lanes(), input_.vector_lanes)) {
  }

  const std::string& implementation() const override { return implementation_; }
  double arithmetic() const override { return arithmetic_of(tiling_, to_); }

  bool compute_statistics(FusedStatistics& statistics) override {
    statistics_ = std::make_unique<StatisticsAccumulator>(statistics, to_.shape.channels, threads_);
    return true;
  }

  std::size_t workspace_bytes() const override {
    return (is_shared_ ? ArenaAllocator::aligned(input_.bytes()) : 0) +
           static_cast<std::size_t>(threads_) * own_bytes();
  }

  void bind(std::byte* workspace, float* flat, float* bias) override {
    ArenaAllocator arena(workspace);
    if (is_shared_) input_.data = reinterpret_cast<float*>(arena.take(input_.bytes()));
    own_ = arena.take(0);
    kernels_.data = flat;
    bias_ = bias;
  }

  void run() override {
    if (statistics_ != nullptr) statistics_->begin();
    const std::int64_t blocks = ceil_div(tiling_.count, block_);
#pragma omp parallel num_threads(threads_)
    {
      const Memory memory(*this, omp_get_thread_num());
      if (is_shared_) {
        for (std::int64_t block = 0; block < blocks; ++block) run_shared(tiles_of(block), memory);
      } else {
#pragma omp for schedule(static)
        for (std::int64_t block = 0; block < blocks; ++block) run_alone(tiles_of(block), memory);
      }
    }
    if (statistics_ != nullptr) statistics_->finish();
  }

 private:
  std::size_t own_bytes() const {
    return (is_shared_ ? 0 : ArenaAllocator::aligned(input_.bytes())) +
           ArenaAllocator::aligned(weights_.bytes()) + ArenaAllocator::aligned(products_.bytes());
  }

  /// The memory that one thread uses: the transformed input of a block, and the transformed weights
  /// and the products of a panel.
  struct Memory {
    Memory(const MapDirection& direction, int thread)
        : input(direction.input_), weights(direction.weights_), products(direction.products_) {
      ArenaAllocator own(direction.own_ + static_cast<std::size_t>(thread) * direction.own_bytes());
      if (!direction.is_shared_) input.data = reinterpret_cast<float*>(own.take(input.bytes()));
      weights.data = reinterpret_cast<float*>(own.take(weights.bytes()));
      products.data = reinterpret_cast<float*>(own.take(products.bytes()));
    }
    Panels input, weights, products;
  };

  TileRange tiles_of(std::int64_t block) const {
    const std::int64_t first = block * block_;
    return {first, std::min(block_, tiling_.count - first)};
  }
  std::int64_t panels() const { return to_.shape.channels / input_.lanes(); }

  void run_alone(TileRange block, const Memory& memory) const {
    for (std::int64_t tile = 0; tile < block.count; tile += transform_tiles)
      transform_tiles_of(block, tile, memory);
    for (std::int64_t panel = 0; panel < panels(); ++panel)
      compute_panel(block, panel, {0, block.count}, memory);
  }

  /// Called by all threads, which share the work; ends with a barrier.
  void run_shared(TileRange block, const Memory& memory) const {
    const std::int64_t parts = threads_ / std::gcd(panels(), std::int64_t{threads_});
#pragma omp for schedule(static)
    for (std::int64_t tile = 0; tile < block.count; tile += transform_tiles)
      transform_tiles_of(block, tile, memory);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < panels() * parts; ++task)
      compute_panel(block, task / parts, part_of(block.count, task % parts, parts), memory);
  }

  /// Transforms the input of some tiles of a block from `tile` on.
  void transform_tiles_of(TileRange block, std::int64_t tile, const Memory& memory) const {
    transform_input(from_, tiling_,
                    {block.first + tile, std::min(transform_tiles, block.count - tile)},
                    memory.input, tile);
  }

  /// Computes one panel of some tiles of a block.
  void compute_panel(TileRange block, std::int64_t panel, Range tiles, const Memory& memory) const {
    if (tiles.first < tiles.last) transform_weights(kernels_, panel, memory.weights);
    for (std::int64_t tile = tiles.first; tile < tiles.last; tile += product_tiles) {
      const std::int64_t count = std::min(product_tiles, tiles.last - tile);
      for (std::int64_t f = 0; f < frequencies; ++f)
        multiply(memory.input, tile, memory.weights, memory.products, count, f);
      write_output(memory.products, {block.first + tile, count}, panel);
    }
  }

  void write_output(const Panels& products, TileRange range, std::int64_t panel) const {
    PartialSums sums;
    transform_output(products, to_, tiling_, range, panel, bias_,
                     statistics_ != nullptr ? &sums : nullptr);
    if (statistics_ != nullptr)
      statistics_->add(omp_get_thread_num(), panel * products.lanes(), products.lanes(), sums);
  }

  int threads_;
  const FeatureMap& from_;
  const FeatureMap& to_;
  Kernels kernels_;
  Tiling tiling_;
  bool is_shared_;
  std::int64_t block_;  // tiles
  std::string implementation_;
  Panels input_, weights_, products_;  // sizes; the data of `input_` if the threads share it
  std::byte* own_ = nullptr;           // memory of each thread
  const float* bias_ = nullptr;
  std::unique_ptr<StatisticsAccumulator> statistics_;  // null: not computed
};

class WeightsDirection : public ConvolutionDirection {
 public:
  WeightsDirection(int threads, const FeatureMap& source, const FeatureMap& destination)
      : threads_(threads),
        source_(source),
        destination_(destination),
        tiling_(tiling_of(destination)),
        block_(block_of(tiling_, source.shape.channels + destination.shape.channels, threads)),
        implementation_(implementation_name(lanes_for(source, destination))),
        input_(panels_of(block_, source.shape.channels, lanes_for(source, destination))),
        gradient_(panels_of(block_, destination.shape.channels, input_.vector_lanes)),
        products_(panels_of(std::min(product_channels, destination.shape.channels), input_.lanes(),
                            input_.vector_lanes)) {}

  const std::string& implementation() const override { return implementation_; }
  double arithmetic() const override { return arithmetic_of(tiling_, destination_); }

  std::size_t workspace_bytes() const override {
    return ArenaAllocator::aligned(input_.bytes()) + ArenaAllocator::aligned(gradient_.bytes()) +
           static_cast<std::size_t>(threads_) * own_bytes();
  }

  void bind(std::byte* workspace, float* flat, float* bias) override {
    ArenaAllocator arena(workspace);
    input_.data = reinterpret_cast<float*>(arena.take(input_.bytes()));
    gradient_.data = reinterpret_cast<float*>(arena.take(gradient_.bytes()));
    own_ = arena.take(0);
    flat_ = flat;
    bias_ = bias;
  }

  void run() override {
    if (bias_ != nullptr) {
      for (int thread = 0; thread < threads_; ++thread)
        std::fill_n(sums_of(thread), destination_.shape.channels, 0.0f);
    }
    for (std::int64_t first = 0; first < tiling_.count; first += block_) {
      run_block({first, std::min(block_, tiling_.count - first)});
    }
    if (bias_ != nullptr) {
      std::fill_n(bias_, destination_.shape.channels, 0.0f);
      for (int thread = 0; thread < threads_; ++thread) {
        const float* sums = sums_of(thread);
        for (std::int64_t k = 0; k < destination_.shape.channels; ++k) bias_[k] += sums[k];
      }
    }
  }

 private:
  std::size_t sums_bytes() const {
    return ArenaAllocator::aligned(static_cast<std::size_t>(destination_.shape.channels) *
                                   sizeof(float));
  }
  std::size_t own_bytes() const {
    return sums_bytes() + ArenaAllocator::aligned(products_.bytes());
  }
  float* sums_of(int thread) const {
    return reinterpret_cast<float*>(own_ + static_cast<std::size_t>(thread) * own_bytes());
  }

  void run_block(TileRange block) {
    const std::int64_t lanes = input_.lanes();
    const std::int64_t source_panels = source_.shape.channels / lanes;
    const std::int64_t groups = ceil_div(destination_.shape.channels, products_.entries);
    // The rows of the products are channels of the destination, so that a thread writes long
    // contiguous ranges.
    const Kernels kernels{.data = flat_,
                          .depth = destination_.shape.channels,
                          .depth_stride = source_.shape.channels * 9,
                          .lane_stride = 9};
#pragma omp parallel num_threads(threads_)
    {
      float* const sums = sums_of(omp_get_thread_num());
#pragma omp for schedule(static)
      for (std::int64_t tile = 0; tile < block.count; tile += transform_tiles) {
        const TileRange some{block.first + tile, std::min(transform_tiles, block.count - tile)};
        transform_input(source_, tiling_, some, input_, tile);
        transform_gradient(destination_, tiling_, some, gradient_, tile,
                           bias_ != nullptr ? sums : nullptr);
      }
      Panels products = products_;
      products.data = sums + sums_bytes() / sizeof(float);
#pragma omp for schedule(static)
      for (std::int64_t task = 0; task < source_panels * groups; ++task) {
        const std::int64_t first = task / source_panels * products_.entries;
        const std::int64_t panel = task % source_panels;
        products.entries = std::min(products_.entries, destination_.shape.channels - first);
        for (std::int64_t f = 0; f < frequencies; ++f) {
          for (std::int64_t k = 0; k < products.entries; k += lanes)
            multiply_transposed(gradient_, (first + k) / lanes, input_, panel, products, k,
                                block.count, f);
        }
        transform_weight_gradient(products, kernels, first, panel, block.first > 0);
      }
    }
  }

  int threads_;
  const FeatureMap& source_;
  const FeatureMap& destination_;
  Tiling tiling_;
  std::int64_t block_;
  std::string implementation_;
  Panels input_, gradient_;  // shared by the threads
  Panels products_;          // one per thread, after the sums for the bias
  std::byte* own_ = nullptr;
  float* flat_ = nullptr;
  float* bias_ = nullptr;
};

}  // namespace

bool fits(const ConvolutionSizes& sizes, const FeatureMap& source, const FeatureMap& destination) {
  const int lanes = lanes_for(source, destination);
  const std::int64_t panel = panel_lanes(lanes);
  return source.images_per_block() == 1 && destination.images_per_block() == 1 &&
         sizes.kernel == 3 && sizes.stride == 1 && sizes.padding == 1 &&
         sizes.in_channels % panel == 0 && sizes.out_channels % panel == 0 &&
         source.lanes() % lanes == 0 && destination.lanes() % lanes == 0;
}

std::unique_ptr<ConvolutionDirection> make(Direction direction, int threads,
                                           const FeatureMap& source,
                                           const FeatureMap& destination) {
  const std::int64_t sources = source.shape.channels, destinations = destination.shape.channels;
  switch (direction) {
    case Direction::forward:
      return std::make_unique<MapDirection>(
          threads, source, destination,
          Kernels{.depth = sources, .depth_stride = 9, .lane_stride = sources * 9});
    case Direction::backward_data:
      return std::make_unique<MapDirection>(threads, destination, source,
                                            Kernels{.depth = destinations,
                                                    .depth_stride = sources * 9,
                                                    .lane_stride = 9,
                                                    .rotated = true});
    case Direction::backward_weights: break;
  }
  return std::make_unique<WeightsDirection>(threads, source, destination);
}

}  // namespace lockstep::backend::cpu::winograd
