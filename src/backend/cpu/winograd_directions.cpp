// SPDX-License-Identifier: BSD-3-Clause
#include <omp.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>

#include "division.hpp"
#include "fused_statistics.hpp"
#include "row_kernels.hpp"
#include "winograd.hpp"

namespace lockstep::backend::cpu::winograd {

namespace {

/// Tiles that a thread transforms at a time.
constexpr std::int64_t transform_tiles = 8;

Panels panels_of(std::int64_t entries, std::int64_t channels, int lanes) {
  return {.entries = entries, .panels = channels / panel_lanes(lanes), .vector_lanes = lanes};
}

std::string implementation_name(int lanes) {
  return "winograd 4x4 (" + std::to_string(lanes) + " lanes)";
}

/// Returns the ratio of multiplications to those of the direct algorithm: 1/4, or more if the tiles
/// extend beyond the map.
double arithmetic_of(const FeatureMap& map) {
  return static_cast<double>(frequencies * tiling_of(map).count) /
         static_cast<double>(9 * map.images * map.shape.pixels());
}

/// Division of the work of `MapDirection`. The tiles are divided into blocks, and the panels of the
/// output into groups. If the transformed weights of all panels are small enough, they are kept
/// (there is one group), and each thread computes its own blocks, whose transformed input and
/// products stay in the L2 cache. Otherwise, or if there are too few tiles, the threads share each
/// block, and compute one group of panels after the other.
struct MapDivision {
  MapDivision(const Tiling& tiling, std::int64_t depth, std::int64_t panels, int lanes,
              int threads);

  bool are_shared;           ///< the blocks
  std::int64_t group;        ///< panels of the output whose weights are transformed together
  std::int64_t block_tiles;  ///< at most
  std::int64_t blocks;
  std::int64_t tiles;

  TileRange block(std::int64_t index) const {
    const Range units = part_of(ceil_div(tiles, unit), index, blocks);
    const std::int64_t first = units.first * unit;
    return {first, std::min(units.last * unit, tiles) - first};
  }

  /// The register tiles of the products have a divisor of this number of rows.
  static constexpr std::int64_t unit = 12;
};

MapDivision::MapDivision(const Tiling& tiling, std::int64_t depth, std::int64_t panels, int lanes,
                         int threads)
    : tiles(tiling.count) {
  constexpr std::int64_t cached_bytes = 700 << 10, most_weights_bytes = 10 << 20;
  constexpr std::int64_t shared_tiles = 132;  // per thread
  const std::int64_t entry_bytes = frequencies * std::int64_t{sizeof(float)} * panel_lanes(lanes);
  const std::int64_t fitting =
      std::max<std::int64_t>(1, most_weights_bytes / (entry_bytes * depth));
  group = fitting < panels ? 1 : panels;
  const std::int64_t tile_bytes = (depth / panel_lanes(lanes) + 1) * entry_bytes;
  const std::int64_t cached = std::max(2 * unit, cached_bytes / tile_bytes / unit * unit);
  are_shared = group < panels || tiles < threads * cached;
  const std::int64_t most = are_shared ? shared_tiles : cached;
  const std::int64_t multiple = are_shared ? 1 : threads;
  blocks = ceil_div(ceil_div(tiles, most), multiple) * multiple;
  block_tiles = std::min(tiles, ceil_div(ceil_div(tiles, unit), blocks) * unit);
}

/// Computes one map from the other: forward and backward data.
class MapDirection : public ConvolutionDirection {
 public:
  MapDirection(int threads, const FeatureMap& from, const FeatureMap& to, const Kernels& kernels)
      : ConvolutionDirection(implementation_name(lanes_for(from, to)), arithmetic_of(to)),
        threads_(threads),
        from_(from),
        to_(to),
        kernels_(kernels),
        tiling_(tiling_of(to)),
        lanes_(lanes_for(from, to)),
        division_(tiling_, from.shape.channels, to.shape.channels / panel_lanes(lanes_), lanes_,
                  threads),
        input_(panels_of(division_.block_tiles, from.shape.channels, lanes_)),
        weights_(panels_of(from.shape.channels, panel_lanes(lanes_), lanes_)),
        products_(panels_of(division_.block_tiles, panel_lanes(lanes_), lanes_)) {}

  bool compute_statistics(FusedStatistics& statistics) override {
    statistics_ = std::make_unique<StatisticsAccumulator>(statistics, to_.shape.channels, threads_);
    return true;
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(division_.group) * ArenaAllocator::aligned(weights_.bytes()) +
           static_cast<std::size_t>(copies()) * copy_bytes();
  }

  void bind(std::byte* workspace, float* flat, float* bias) override {
    workspace_ = workspace;
    kernels_.data = flat;
    bias_ = bias;
  }

  void run() override {
    if (statistics_ != nullptr) statistics_->begin();
#pragma omp parallel num_threads(threads_)
    {
      if (division_.are_shared) {
        for (std::int64_t block = 0; block < division_.blocks; ++block)
          run_shared(division_.block(block));
      } else {
        transform_group({0, division_.group});
#pragma omp for schedule(static)
        for (std::int64_t block = 0; block < division_.blocks; ++block) run_alone(block);
      }
    }
    if (statistics_ != nullptr) statistics_->finish();
  }

 private:
  /// Copies of the memory for a block.
  int copies() const { return division_.are_shared ? 1 : threads_; }
  /// Panels of products that a copy has.
  std::int64_t product_panels() const { return division_.are_shared ? division_.group : 1; }
  std::size_t copy_bytes() const {
    return ArenaAllocator::aligned(input_.bytes()) +
           static_cast<std::size_t>(product_panels()) * ArenaAllocator::aligned(products_.bytes());
  }
  static Panels placed(Panels panels, std::byte* memory, std::int64_t index = 0) {
    panels.data = reinterpret_cast<float*>(memory + static_cast<std::size_t>(index) *
                                                        ArenaAllocator::aligned(panels.bytes()));
    return panels;
  }
  /// Returns the transformed weights of a panel of a group.
  Panels weights(std::int64_t panel) const { return placed(weights_, workspace_, panel); }
  std::byte* copy(int index) const {
    return workspace_ +
           static_cast<std::size_t>(division_.group) * ArenaAllocator::aligned(weights_.bytes()) +
           static_cast<std::size_t>(index) * copy_bytes();
  }
  Panels input(int copy_index) const { return placed(input_, copy(copy_index)); }
  Panels products(int copy_index, std::int64_t panel) const {
    return placed(products_, copy(copy_index) + ArenaAllocator::aligned(input_.bytes()), panel);
  }

  /// Transforms the weights of some panels. Called by all threads, which share the work; ends with
  /// a barrier.
  void transform_group(Range panels) const {
    constexpr std::int64_t depth_at_once = 32;
    const std::int64_t parts = ceil_div(kernels_.depth, depth_at_once);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < (panels.last - panels.first) * parts; ++task) {
      const Range depth = part_of(kernels_.depth, task % parts, parts);
      Panels to = weights(task / parts);
      to.data = to.at(0, 0, depth.first);
      Kernels some = kernels_;
      some.data += depth.first * kernels_.depth_stride;
      some.depth = depth.last - depth.first;
      transform_weights(some, panels.first + task / parts, to);
    }
  }

  void run_alone(std::int64_t index) const {
    const TileRange block = division_.block(index);
    const TileRange next = index + 1 < division_.blocks ? division_.block(index + 1) : TileRange{};
    const int thread = omp_get_thread_num();
    const Panels from = input(thread), to = products(thread, 0);
    transform_input(from_, tiling_, block, from, 0);
    for (std::int64_t panel = 0; panel < division_.group; ++panel) {
      const Panels with = weights(panel);
      for (std::int64_t f = 0; f < frequencies; ++f) {
        prefetch_tiles(from_, tiling_, next, 0, from_.shape.channels, panel * frequencies + f,
                       division_.group * frequencies);
        prefetch_tiles(to_, tiling_, block, panel * to.lanes(), to.lanes(), f, frequencies);
        multiply(from, 0, with, to, block.count, f);
      }
      write_output(to, block, panel);
    }
  }

  /// Called by all threads, which share the work; ends with a barrier.
  void run_shared(TileRange block) const {
    const Panels from = input(0);
    const std::int64_t panels = to_.shape.channels / from.lanes();
#pragma omp for schedule(static)
    for (std::int64_t tile = 0; tile < block.count; tile += transform_tiles) {
      transform_input(from_, tiling_,
                      {block.first + tile, std::min(transform_tiles, block.count - tile)}, from,
                      tile);
    }
    for (std::int64_t first = 0; first < panels; first += division_.group) {
      const Range group{first, std::min(first + division_.group, panels)};
      transform_group(group);
      multiply_group(block, group.last - group.first);
      write_group(block, group);
    }
  }

  /// Multiplies with the weights of a group. Called by all threads, as `transform_group`.
  void multiply_group(TileRange block, std::int64_t panels) const {
    const Panels from = input(0);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < frequencies * panels; ++task) {
      const std::int64_t panel = task % panels;
      multiply(from, 0, weights(panel), products(0, panel), block.count, task / panels);
    }
  }

  /// Writes the output of a group. Called by all threads, as `transform_group`.
  void write_group(TileRange block, Range group) const {
    const std::int64_t parts = ceil_div(block.count, transform_tiles);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < (group.last - group.first) * parts; ++task) {
      const Range tiles = part_of(block.count, task % parts, parts);
      Panels from = products(0, task / parts);
      from.data = from.at(0, 0, tiles.first);
      write_output(from, {block.first + tiles.first, tiles.last - tiles.first},
                   group.first + task / parts);
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
  int lanes_;
  MapDivision division_;
  Panels input_, weights_, products_;  // sizes; the last two of one panel
  std::byte* workspace_ = nullptr;
  const float* bias_ = nullptr;
  std::unique_ptr<StatisticsAccumulator> statistics_;  // null: not computed
};

/// Channels of the destination whose weight gradients a thread computes at once; their products
/// should stay in the L2 cache.
constexpr std::int64_t product_channels = 64;

/// Computes the gradient of the weights. If there are enough tiles, each thread adds up the
/// gradient of its own blocks, and the sums of the threads are added at the end. Otherwise all
/// threads share each block: they transform its maps together, and each of them computes some
/// channels.
class WeightsDirection : public ConvolutionDirection {
 public:
  WeightsDirection(int threads, const FeatureMap& source, const FeatureMap& destination)
      : ConvolutionDirection(implementation_name(lanes_for(source, destination)),
                             arithmetic_of(destination)),
        threads_(threads),
        source_(source),
        destination_(destination),
        tiling_(tiling_of(destination)),
        blocks_(tiling_, source.shape.channels + destination.shape.channels, threads,
                static_cast<std::int64_t>(weights_count() * sizeof(float))),
        input_(
            panels_of(blocks_.most_tiles(), source.shape.channels, lanes_for(source, destination))),
        gradient_(panels_of(blocks_.most_tiles(), destination.shape.channels, input_.vector_lanes)),
        products_(panels_of(std::min(product_channels, destination.shape.channels), input_.lanes(),
                            input_.vector_lanes)) {}

  std::size_t workspace_bytes() const override {
    const auto threads = static_cast<std::size_t>(threads_);
    return threads * own_bytes() +
           (blocks_.are_shared() ? block_bytes() : (threads - 1) * sum_bytes());
  }

  void bind(std::byte* workspace, float* flat, float* bias) override {
    ArenaAllocator arena(workspace);
    own_ = arena.take(static_cast<std::size_t>(threads_) * own_bytes());
    if (blocks_.are_shared()) take_block(arena, input_, gradient_);
    sums_ = arena.take(0);
    flat_ = flat;
    bias_ = bias;
  }

  void run() override {
#pragma omp parallel num_threads(threads_)
    {
#pragma omp for schedule(static)
      for (int part = 0; part < threads_; ++part) {
        const Memory memory(*this, part);
        std::fill_n(memory.bias, destination_.shape.channels, 0.0f);
        if (!blocks_.are_shared()) run_alone(part_of(blocks_.count(), part, threads_), memory);
      }
      if (blocks_.are_shared()) {
        const Memory memory(*this, omp_get_thread_num());
        for (std::int64_t block = 0; block < blocks_.count(); ++block) run_shared(block, memory);
      } else {
        add_sums();
      }
    }
    if (bias_ == nullptr) return;
    std::fill_n(bias_, destination_.shape.channels, 0.0f);
    for (int part = 0; part < threads_; ++part)
      add_into(Memory(*this, part).bias, bias_, destination_.shape.channels);
  }

 private:
  /// The memory that one thread uses. The gradient of the weights is that of the model if the
  /// threads share the blocks, and for the first part.
  struct Memory {
    Memory(const WeightsDirection& direction, int part)
        : input(direction.input_),
          gradient(direction.gradient_),
          products(direction.products_),
          weights(direction.flat_) {
      ArenaAllocator own(direction.own_ + static_cast<std::size_t>(part) * direction.own_bytes());
      bias = own.take<float>(direction.bias_bytes());
      products.data = own.take<float>(products.bytes());
      if (direction.blocks_.are_shared()) return;
      direction.take_block(own, input, gradient);
      if (part > 0) weights = direction.sum_of(part);
    }
    Panels input, gradient;  ///< transformed maps of a block
    Panels products;         ///< of some channels
    float* weights;
    float* bias;
  };

  std::size_t weights_count() const {
    return static_cast<std::size_t>(source_.shape.channels * destination_.shape.channels * 9);
  }
  std::size_t sum_bytes() const { return ArenaAllocator::aligned(weights_count() * sizeof(float)); }
  /// Returns the gradient of the weights of a part except the first.
  float* sum_of(int part) const {
    return reinterpret_cast<float*>(sums_ + static_cast<std::size_t>(part - 1) * sum_bytes());
  }
  std::size_t bias_bytes() const {
    return static_cast<std::size_t>(destination_.shape.channels) * sizeof(float);
  }
  std::size_t block_bytes() const {
    return ArenaAllocator::aligned(input_.bytes()) + ArenaAllocator::aligned(gradient_.bytes());
  }
  std::size_t own_bytes() const {
    const std::size_t always =
        ArenaAllocator::aligned(bias_bytes()) + ArenaAllocator::aligned(products_.bytes());
    return blocks_.are_shared() ? always : always + block_bytes();
  }
  void take_block(ArenaAllocator& arena, Panels& input, Panels& gradient) const {
    input.data = arena.take<float>(input.bytes());
    gradient.data = arena.take<float>(gradient.bytes());
  }
  std::int64_t tasks() const {
    return input_.panels * ceil_div(destination_.shape.channels, products_.entries);
  }

  void run_alone(Range blocks, const Memory& memory) const {
    for (std::int64_t block = blocks.first; block < blocks.last; ++block) {
      const TileRange tiles = blocks_.range(block);
      for (std::int64_t tile = 0; tile < tiles.count; tile += transform_tiles)
        transform(tiles, tile, memory);
      for (std::int64_t task = 0; task < tasks(); ++task)
        compute(task, tiles, block > blocks.first, memory,
                block + 1 < blocks.last ? blocks_.range(block + 1) : TileRange{});
    }
  }

  /// Called by all threads, which share the work; ends with a barrier.
  void run_shared(std::int64_t block, const Memory& memory) const {
    const TileRange tiles = blocks_.range(block);
#pragma omp for schedule(static)
    for (std::int64_t tile = 0; tile < tiles.count; tile += transform_tiles)
      transform(tiles, tile, memory);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < tasks(); ++task) compute(task, tiles, block > 0, memory, {});
  }

  /// Transforms the maps of some tiles of a block, from `tile` on.
  void transform(TileRange block, std::int64_t tile, const Memory& memory) const {
    const TileRange some{block.first + tile, std::min(transform_tiles, block.count - tile)};
    transform_input(source_, tiling_, some, memory.input, tile);
    transform_gradient(destination_, tiling_, some, memory.gradient, tile,
                       bias_ != nullptr ? memory.bias : nullptr);
  }

  /// Computes the gradient of the weights between one panel of the source and some channels of the
  /// destination, from the transformed tiles of a block. The rows of the products are channels of
  /// the destination, so that a thread writes long contiguous ranges.
  /// Fetches `next`, the tiles that are transformed next.
  void compute(std::int64_t task, TileRange block, bool adds, const Memory& memory,
               TileRange next) const {
    const std::int64_t first = task / input_.panels * products_.entries;
    const std::int64_t panel = task % input_.panels;
    Panels products = memory.products;
    products.entries = std::min(products.entries, destination_.shape.channels - first);
    for (std::int64_t f = 0; f < frequencies; ++f) {
      const std::int64_t part = task * frequencies + f, parts = tasks() * frequencies;
      prefetch_tiles(source_, tiling_, next, 0, source_.shape.channels, part, parts);
      prefetch_tiles(destination_, tiling_, next, 0, destination_.shape.channels, part, parts);
      for (std::int64_t k = 0; k < products.entries; k += products.lanes())
        multiply_transposed(memory.gradient, (first + k) / products.lanes(), memory.input, panel,
                            products, k, block.count, f);
    }
    transform_weight_gradient(products,
                              {.data = memory.weights,
                               .depth = destination_.shape.channels,
                               .depth_stride = source_.shape.channels * 9,
                               .lane_stride = 9},
                              first, panel, adds);
  }

  /// Adds the gradients of all parts. Called by all threads, which share the work.
  void add_sums() const {
    constexpr std::int64_t at_once = 4096;
    const auto count = static_cast<std::int64_t>(weights_count());
#pragma omp for schedule(static)
    for (std::int64_t first = 0; first < count; first += at_once) {
      for (int part = 1; part < threads_; ++part)
        add_into(sum_of(part) + first, flat_ + first, std::min(at_once, count - first));
    }
  }

  int threads_;
  const FeatureMap& source_;
  const FeatureMap& destination_;
  Tiling tiling_;
  TileBlocks blocks_;
  Panels input_, gradient_, products_;  // sizes; data of the first two if the threads share them
  std::byte* own_ = nullptr;            // memory of each thread
  std::byte* sums_ = nullptr;           // gradient of the weights of each part except the first
  float* flat_ = nullptr;
  float* bias_ = nullptr;
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make(const ConvolutionProblem& problem, int threads) {
  const auto& [direction, sizes, source, destination] = problem;
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
