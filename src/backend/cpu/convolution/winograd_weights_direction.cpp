// SPDX-License-Identifier: BSD-3-Clause
#include "winograd_weights_direction.hpp"

#include <omp.h>

#include <algorithm>
#include <memory>

#include "../kernels/division.hpp"
#include "../kernels/row_kernels.hpp"
#include "winograd_directions.hpp"
#include "winograd_products.hpp"
#include "winograd_strided_kernels.hpp"

namespace lockstep::backend::cpu::winograd {

namespace {

/// Channels of the destination whose weight gradients a thread computes at once; their products
/// should stay in the L2 cache.
constexpr std::int64_t product_channels = 64;

/// The kernels, and the size of a tile in the source.
struct WeightsKernels {
  decltype(&transform_input) input;
  decltype(&transform_gradient) gradient;
  decltype(&transform_weight_gradient) weight_gradient;
  std::int64_t source_size;
};

WeightsKernels weights_kernels(const ConvolutionProblem& problem) {
  if (!is_strided(problem))
    return {transform_input, transform_gradient, transform_weight_gradient, tile_size};
  return {strided::transform_input, strided::transform_gradient, strided::transform_weight_gradient,
          strided::source_tile_size};
}

/// Computes the gradient of the weights. If there are enough tiles, each thread adds up the
/// gradient of its own blocks, and the sums of the threads are added at the end. Otherwise all
/// threads share each block: they transform its maps together, and each of them computes some
/// channels.
class WeightsDirection : public ConvolutionDirection {
 public:
  WeightsDirection(const ConvolutionProblem& problem, int threads)
      : ConvolutionDirection(implementation_name(problem), arithmetic_of(problem)),
        threads_(threads),
        source_(problem.source),
        destination_(problem.destination),
        run_(weights_kernels(problem)),
        tiling_(tiling_of(destination_)),
        blocks_(tiling_, source_.shape.channels + destination_.shape.channels, threads,
                static_cast<std::int64_t>(weights_count() * sizeof(float)), products_of(problem)),
        input_(panels_of(blocks_.most_tiles(), source_.shape.channels,
                         lanes_for(source_, destination_), is_strided(problem))),
        gradient_(panels_of(blocks_.most_tiles(), destination_.shape.channels, input_.vector_lanes,
                            is_strided(problem))),
        products_(panels_of(std::min(product_channels, destination_.shape.channels), input_.lanes(),
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
      for (std::int64_t tile = 0; tile < tiles.count; tile += tiles_at_once)
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
    for (std::int64_t tile = 0; tile < tiles.count; tile += tiles_at_once)
      transform(tiles, tile, memory);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < tasks(); ++task) compute(task, tiles, block > 0, memory, {});
  }

  /// Transforms the maps of some tiles of a block, from `tile` on.
  void transform(TileRange block, std::int64_t tile, const Memory& memory) const {
    const TileRange some{block.first + tile, std::min(tiles_at_once, block.count - tile)};
    run_.input(source_, tiling_, some, memory.input, tile);
    run_.gradient(destination_, tiling_, some, memory.gradient, tile,
                  bias_ != nullptr ? memory.bias : nullptr);
  }

  /// Computes the gradient of the weights between one panel of the source and some channels of the
  /// destination, from the transformed tiles of a block. The rows of the products are channels of
  /// the destination, so that a thread writes long contiguous ranges. Meanwhile fetches `next`, the
  /// tiles that are transformed next.
  void compute(std::int64_t task, TileRange block, bool adds, const Memory& memory,
               TileRange next) const {
    const std::int64_t first = task / input_.panels * products_.entries;
    const std::int64_t panel = task % input_.panels;
    Panels products = memory.products;
    products.entries = std::min(products.entries, destination_.shape.channels - first);
    for (std::int64_t f = 0; f < frequencies; ++f) {
      const std::int64_t part = task * frequencies + f, parts = tasks() * frequencies;
      prefetch_tiles(source_, tiling_, next, run_.source_size, 0, source_.shape.channels, part,
                     parts);
      prefetch_tiles(destination_, tiling_, next, tile_size, 0, destination_.shape.channels, part,
                     parts);
      for (std::int64_t k = 0; k < products.entries; k += products.lanes())
        multiply_transposed(memory.gradient, (first + k) / products.lanes(), memory.input, panel,
                            products, k, block.count, f);
    }
    run_.weight_gradient(products,
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
  WeightsKernels run_;
  Tiling tiling_;
  TileBlocks blocks_;
  Panels input_, gradient_, products_;  // sizes; data of the first two if the threads share them
  std::byte* own_ = nullptr;            // memory of each thread
  std::byte* sums_ = nullptr;           // gradient of the weights of each part except the first
  float* flat_ = nullptr;
  float* bias_ = nullptr;
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_weights_direction(const ConvolutionProblem& problem,
                                                             int threads) {
  return std::make_unique<WeightsDirection>(problem, threads);
}

}  // namespace lockstep::backend::cpu::winograd
