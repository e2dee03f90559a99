// SPDX-License-Identifier: BSD-3-Clause
#include "winograd_map_direction.hpp"

#include <omp.h>

#include <algorithm>
#include <memory>

#include "../fused_statistics.hpp"
#include "../kernels/division.hpp"
#include "../kernels/row_kernels.hpp"
#include "winograd_directions.hpp"
#include "winograd_products.hpp"
#include "winograd_strided_kernels.hpp"

namespace lockstep::backend::cpu::winograd {

namespace {

/// Division of the work of `MapDirection`. The tiles are divided into blocks, and the panels of the
/// output into groups. If the transformed weights of all panels are small enough, they are kept
/// (there is one group), and each thread computes its own blocks, whose transformed input and
/// products stay in the L2 cache. Otherwise, or if there are too few tiles, the threads share each
/// block, and compute one group of panels after the other.
struct MapDivision {
  MapDivision(const Tiling& tiling, std::int64_t products, std::int64_t depth, std::int64_t panels,
              int lanes, int threads);

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

MapDivision::MapDivision(const Tiling& tiling, std::int64_t products, std::int64_t depth,
                         std::int64_t panels, int lanes, int threads)
    : tiles(tiling.count) {
  constexpr std::int64_t cached_bytes = 700 << 10, shared_bytes = 10 << 20;
  constexpr std::int64_t most_weights_bytes = 10 << 20;
  constexpr std::int64_t fewest = 2 * unit, most_shared = 11 * unit;
  const std::int64_t panel_bytes = std::int64_t{sizeof(float)} * panel_lanes(lanes);
  group = frequencies * depth * panels * panel_bytes <= most_weights_bytes ? panels : 1;
  const std::int64_t tile_bytes = (depth / panel_lanes(lanes) + 1) * products * panel_bytes;
  const std::int64_t cached = std::max(fewest, cached_bytes / tile_bytes / unit * unit);
  are_shared = group < panels || tiles < threads * cached;
  const std::int64_t shared =
      std::clamp(shared_bytes / tile_bytes / unit * unit, 2 * fewest, most_shared);
  const std::int64_t multiple = are_shared ? 1 : threads;
  blocks = ceil_div(ceil_div(tiles, are_shared ? shared : cached), multiple) * multiple;
  block_tiles = std::min(tiles, ceil_div(ceil_div(tiles, unit), blocks) * unit);
}

/// The kernels of a direction, and the sizes of a tile in the two maps.
struct MapKernels {
  decltype(&transform_input) input;
  decltype(&transform_weights) weights;
  decltype(&transform_output) output;
  std::int64_t from_size, to_size;
};

MapKernels map_kernels(const ConvolutionProblem& problem) {
  if (!is_strided(problem))
    return {transform_input, transform_weights, transform_output, tile_size, tile_size};
  if (problem.direction == Direction::forward) {
    return {strided::transform_input, strided::transform_weights, strided::transform_output,
            strided::source_tile_size, tile_size};
  }
  return {strided::transform_gradient_patch, strided::transform_weights,
          strided::transform_input_gradient, tile_size, strided::source_tile_size};
}

/// Returns the weights as the direction uses them.
Kernels weights_of(const ConvolutionProblem& problem) {
  const std::int64_t sources = problem.source.shape.channels;
  if (problem.direction == Direction::forward)
    return {.depth = sources, .depth_stride = 9, .lane_stride = sources * 9};
  return {.depth = problem.destination.shape.channels,
          .depth_stride = sources * 9,
          .lane_stride = 9,
          .rotated = true};
}

/// Computes one map from the other: forward and backward data.
class MapDirection : public ConvolutionDirection {
 public:
  MapDirection(const ConvolutionProblem& problem, int threads)
      : ConvolutionDirection(implementation_name(problem), arithmetic_of(problem)),
        threads_(threads),
        from_(problem.direction == Direction::forward ? problem.source : problem.destination),
        to_(problem.direction == Direction::forward ? problem.destination : problem.source),
        run_(map_kernels(problem)),
        kernels_(weights_of(problem)),
        tiling_(tiling_of(problem.destination)),
        lanes_(lanes_for(from_, to_)),
        division_(tiling_, products_of(problem), from_.shape.channels,
                  to_.shape.channels / panel_lanes(lanes_), lanes_, threads),
        input_(panels_of(division_.block_tiles, from_.shape.channels, lanes_, is_strided(problem))),
        weights_(panels_of(from_.shape.channels, panel_lanes(lanes_), lanes_)),
        products_(
            panels_of(division_.block_tiles, panel_lanes(lanes_), lanes_, is_strided(problem))) {}

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
      run_.weights(some, panels.first + task / parts, to);
    }
  }

  void run_alone(std::int64_t index) const {
    const TileRange block = division_.block(index);
    const TileRange next = index + 1 < division_.blocks ? division_.block(index + 1) : TileRange{};
    const int thread = omp_get_thread_num();
    const Panels from = input(thread), to = products(thread, 0);
    run_.input(from_, tiling_, block, from, 0);
    for (std::int64_t panel = 0; panel < division_.group; ++panel) {
      const Panels with = weights(panel);
      for (std::int64_t f = 0; f < frequencies; ++f) {
        prefetch_tiles(from_, tiling_, next, run_.from_size, 0, from_.shape.channels,
                       panel * frequencies + f, division_.group * frequencies);
        prefetch_tiles(to_, tiling_, block, run_.to_size, panel * to.lanes(), to.lanes(), f,
                       frequencies);
        multiply(from, 0, with, to, block.count, f);
      }
      write_output(to, 0, block, panel);
    }
  }

  /// Called by all threads, which share the work; ends with a barrier.
  void run_shared(TileRange block) const {
    const Panels from = input(0);
    const std::int64_t panels = to_.shape.channels / from.lanes();
#pragma omp for schedule(static)
    for (std::int64_t tile = 0; tile < block.count; tile += tiles_at_once) {
      run_.input(from_, tiling_, {block.first + tile, std::min(tiles_at_once, block.count - tile)},
                 from, tile);
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
    const std::int64_t parts = ceil_div(block.count, tiles_at_once);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < (group.last - group.first) * parts; ++task) {
      const Range tiles = part_of(block.count, task % parts, parts);
      write_output(products(0, task / parts), tiles.first,
                   {block.first + tiles.first, tiles.last - tiles.first},
                   group.first + task / parts);
    }
  }

  void write_output(const Panels& products, std::int64_t first, TileRange range,
                    std::int64_t panel) const {
    PartialSums sums;
    run_.output(products, first, to_, tiling_, range, panel, bias_,
                statistics_ != nullptr ? &sums : nullptr);
    if (statistics_ != nullptr)
      statistics_->add(omp_get_thread_num(), panel * products.lanes(), products.lanes(), sums);
  }

  int threads_;
  const FeatureMap& from_;
  const FeatureMap& to_;
  MapKernels run_;
  Kernels kernels_;
  Tiling tiling_;
  int lanes_;
  MapDivision division_;
  Panels input_, weights_, products_;  // sizes; the last two of one panel
  std::byte* workspace_ = nullptr;
  const float* bias_ = nullptr;
  std::unique_ptr<StatisticsAccumulator> statistics_;  // null: not computed
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_map_direction(const ConvolutionProblem& problem,
                                                         int threads) {
  return std::make_unique<MapDirection>(problem, threads);
}

}  // namespace lockstep::backend::cpu::winograd
