// SPDX-License-Identifier: BSD-3-Clause
// Compares all implementation candidates of the batch-norm passes with each other. The program
// selects one of them by timing on the GPU, so all must compute the same results.
//
// Tolerance: 1e-5, as a relative Euclidean norm in float32. The candidates sum in different orders
// and subtract different values from x before they sum.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/cuda/batch_norm/passes.hpp"
#include "backend/cuda/dnn/convolution_graphs.hpp"
#include "backend/support.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/graph/graph.hpp"
#include "temporary_directory.hpp"

namespace lockstep::backend::cuda {
namespace {

constexpr std::int64_t channels = 12;
constexpr std::int64_t images = 3, height = 5, width = 4;
constexpr std::size_t map_size = images * height * width * channels;

struct Pattern {
  std::string name;
  bool residual = false, relu = false;
  std::size_t gradients = 1;
  bool fork = false;

  friend void PrintTo(const Pattern& pattern, std::ostream* out) { *out << pattern.name; }
};

/// Allocates device memory, which the host can access because the GPU is simulated.
template <class T>
struct DeviceAllocator {
  using value_type = T;
  DeviceAllocator() = default;
  template <class Other>
  DeviceAllocator(const DeviceAllocator<Other>&) {}
  T* allocate(std::size_t count) {
    void* data = nullptr;
    core::check_cuda(cudaMalloc(&data, count * sizeof(T)), "a test");
    return static_cast<T*>(data);
  }
  void deallocate(T* data, std::size_t) { cudaFree(data); }
  friend bool operator==(const DeviceAllocator&, const DeviceAllocator&) { return true; }
};
template <class T>
using DeviceVector = std::vector<T, DeviceAllocator<T>>;

DeviceVector<float> random_values(std::size_t count, std::uint64_t seed) {
  core::Random random(seed, core::RandomStream::test);
  DeviceVector<float> values(count);
  for (float& value : values) value = 2 * random.uniform() - 0.7f;
  return values;
}

/// Memory of one batch norm: inputs are random; outputs and the values saved for backward are NaN.
/// `view` points to it.
struct Memory {
  explicit Memory(const Pattern& pattern, std::size_t workspace_bytes)
      : x(random_values(map_size, 1)),
        residual(random_values(map_size, 2)),
        dy(random_values(map_size, 3)),
        dy_more(random_values(map_size, 4)),
        gamma(random_values(channels, 5)),
        beta(random_values(channels, 6)),
        running_mean(random_values(channels, 7)),
        running_variance(channels, 2),
        workspace(workspace_bytes + 1) {
    const auto bytes = [](DeviceVector<float>& of) {
      return reinterpret_cast<std::byte*>(of.data());
    };
    view = {.x = bytes(x), .y = bytes(y), .dy = bytes(dy), .dx = bytes(dx)};
    if (pattern.residual) view.residual = bytes(residual);
    if (pattern.gradients > 1) view.dy_more = bytes(dy_more);
    if (pattern.fork) view.masked = bytes(masked);
    view.gamma = gamma.data();
    view.beta = beta.data();
    view.gamma_gradient = gamma_gradient.data();
    view.beta_gradient = beta_gradient.data();
    view.running_mean = running_mean.data();
    view.running_variance = running_variance.data();
    view.saved = saved.data();
    view.sums = sums.data();
    view.squares = squares.data();
    view.workspace = workspace.data();
    for (std::size_t i = 0; i < map_size; ++i) {
      sums[i % channels] += x[i];
      squares[i % channels] += x[i] * x[i];
    }
  }

  DeviceVector<float> x, residual, dy, dy_more, gamma, beta, running_mean, running_variance;
  DeviceVector<std::byte> workspace;
  DeviceVector<float> y = DeviceVector<float>(map_size, NAN), dx = y, masked = y;
  DeviceVector<float> gamma_gradient = DeviceVector<float>(channels, NAN),
                      beta_gradient = gamma_gradient;
  DeviceVector<float> saved =
      DeviceVector<float>(static_cast<std::size_t>(batch_norm_saved_floats(channels)), NAN);
  DeviceVector<float> sums = DeviceVector<float>(channels), squares = sums;
  BatchNormMemory view;
};

class BatchNormPasses : public testing::TestWithParam<Pattern> {
 protected:
  BatchNormSetting setting() const {
    const Pattern& pattern = GetParam();
    return {.context = &context_,
            .shape = {images, channels, height, width},
            .has_residual = pattern.residual,
            .has_relu = pattern.relu,
            .epsilon = 1e-5f,
            .momentum = 0.1f,
            .output_gradients = pattern.gradients,
            .wants_residual_gradient = pattern.fork};
  }

  /// Runs the given implementations of the forward and the backward pass; returns the memory after
  /// both.
  Memory run(BatchNormPass& forward, BatchNormPass& backward) const {
    Memory memory(GetParam(), std::max(forward.workspace_bytes(), backward.workspace_bytes()));
    for (BatchNormPass* pass : {&forward, &backward}) {
      pass->bind(memory.view);
      pass->run();
      core::check_cuda(cudaStreamSynchronize(target_.stream()), "a pass");
    }
    return memory;
  }

  void expect_same(const Memory& got, const Memory& want) const {
    const auto expect = [&](const DeviceVector<float> Memory::*part, const char* what) {
      EXPECT_LE(test::relative_error(got.*part, want.*part), 1e-5) << what;
    };
    expect(&Memory::y, "y");
    expect(&Memory::dx, "dx");
    expect(&Memory::gamma_gradient, "gradient of gamma");
    expect(&Memory::beta_gradient, "gradient of beta");
    expect(&Memory::running_mean, "running mean");
    expect(&Memory::running_variance, "running variance");
    if (GetParam().fork) expect(&Memory::masked, "gradient of the residual");
  }

  /// Runs all pairs of implementations and compares each with the first one. Returns the number of
  /// pairs.
  std::size_t compare_all() {
    std::size_t pairs = 0;
    std::optional<Memory> want;
    for (const SumsFrom sums : {SumsFrom::batch_norm, SumsFrom::convolution}) {
      for (auto& forward : forward_candidates(setting(), sums)) {
        for (auto& backward : backward_candidates(setting(), *forward)) {
          SCOPED_TRACE(forward->name() + " | " + backward->name());
          Memory got = run(*forward, *backward);
          if (want) expect_same(got, *want);
          if (!want) want.emplace(std::move(got));
          ++pairs;
        }
      }
    }
    return pairs;
  }

  Target target_ = Target::device(0);
  DnnPlanner planner_{target_, {}, EngineCache()};
  Context context_{.graph = nullptr,
                   .options = {.batch = images},
                   .element = core::DataType::float32,
                   .target = &target_,
                   .planner = &planner_};
};

TEST_P(BatchNormPasses, HaveTheSameResult) {
  const Pattern& pattern = GetParam();
  const bool is_known = !pattern.residual || pattern.relu;
  const bool has_two_masks = pattern.relu && !pattern.residual;
  // Forward candidates: cuDNN, the kernels of this program, and these kernels with sums from a
  // convolution. Backward candidates: cuDNN (with two masks: twice) and the kernels of this
  // program. For a residual without a ReLU there is no cuDNN candidate.
  EXPECT_EQ(compare_all(), !is_known ? 2u : has_two_masks ? 9u : 6u);
}

/// Returns the names of the forward implementations that a plan of a residual network chooses for
/// its batch norms with the option `fusion`.
std::vector<std::string> batch_norms_of(BatchNormFusion fusion) {
  const auto networks = test::small_networks();
  const auto block = std::ranges::find(networks, "block_strided", &test::Network::name);
  const test::Replica replica(
      DeviceKind::cuda, 1, block->graph,
      {.batch = 2, .precision = core::Precision::fp16, .batch_norm_fusion = fusion});
  std::vector<std::string> names;
  for (const OperationChoice& choice : replica.plan->choices()) {
    const auto& operation = block->graph.node(choice.node).operation;
    if (operation.is<graph::BatchNorm>() && choice.phase == "forward")
      names.push_back(choice.implementation);
  }
  return names;
}

TEST(BatchNormFusion, FollowsTheOption) {
  const auto with = [](const std::vector<std::string>& names, std::string_view part) {
    return std::ranges::count_if(
        names, [&](const auto& name) { return name.find(part) != std::string::npos; });
  };
  // Batch norms: one in the stem, one in the shortcut and two in the block; all follow
  // convolutions.
  const auto none = batch_norms_of(BatchNormFusion::none);
  EXPECT_EQ(none.size(), 4u);
  EXPECT_EQ(with(none, "convolution"), 0);
  const auto sums = batch_norms_of(BatchNormFusion::sums);
  EXPECT_EQ(with(sums, "sums from the convolution"), 4);
}

constexpr ConvolutionShape convolution{.images = images,
                                       .in_channels = channels,
                                       .in_height = height,
                                       .in_width = width,
                                       .out_channels = channels,
                                       .kernel = 1};

TEST(Planner, DeterministicPlannerTimesNothing) {
  const Target target = Target::device(0);
  DnnPlanner timed(target, {}, EngineCache());
  DnnPlanner repeatable(target, {.deterministic = true}, EngineCache());
  EXPECT_GT(convolution_forward(timed, convolution, core::Precision::fp32)->seconds(), 0);
  EXPECT_EQ(convolution_forward(repeatable, convolution, core::Precision::fp32)->seconds(), 0);
}

/// A second planner reads the engine that the first one has timed from disk, and computes the same
/// result with it.
TEST(Planner, TakesTheEnginesOfAnEarlierRun) {
  const TemporaryDirectory folder;
  const Target target = Target::device(0);
  auto x = random_values(map_size, 1), weights = random_values(channels * channels, 2);
  const auto compute = [&] {
    DnnPlanner planner(target, {}, EngineCache(folder / "engines.json"));
    const auto graph = convolution_forward(planner, convolution, core::Precision::fp32);
    DeviceVector<float> y(map_size);
    DeviceVector<std::byte> workspace(graph->workspace_bytes());
    const std::vector<Binding> bindings{{convolution_tensor::x, x.data()},
                                        {convolution_tensor::weights, weights.data()},
                                        {convolution_tensor::y, y.data()}};
    graph->run(bindings, workspace.data());
    core::check_cuda(cudaStreamSynchronize(target.stream()), "a convolution");
    return std::pair(y, graph->seconds());
  };
  const auto first = compute();
  EXPECT_FALSE(std::filesystem::is_empty(folder / "plans"));
  EXPECT_GT(first.second, 0);
  EXPECT_EQ(compute(), first) << "timed again, or another engine";
}

INSTANTIATE_TEST_SUITE_P(Patterns, BatchNormPasses,
                         testing::Values(Pattern{"alone"},
                                         Pattern{"two_gradients", false, false, 2},
                                         Pattern{"relu", false, true},
                                         Pattern{"relu_two_gradients", false, true, 2},
                                         Pattern{"block_end", true, true, 1, true},
                                         Pattern{"block_end_two_gradients", true, true, 2, true},
                                         Pattern{"residual_of_images", true, true, 2},
                                         Pattern{"residual", true, false, 2, true}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep::backend::cuda
