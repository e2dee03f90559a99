// The list of kernels of a small network and their times, compared with values computed by hand.

#include "kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "kernel_time.hpp"
#include "lockstep/graph/models.hpp"
#include "support.hpp"
#include "tiles.hpp"

namespace lockstep::train {
namespace {

using backend::MapTraffic;
using backend::OperationChoice;
using comm::BucketPartition;

constexpr graph::NodeId conv1 = 1, norm1 = 2, conv2 = 4, norm2 = 5;
constexpr double batch = 4, half = 2;
constexpr double pixels = 4 * 4;
constexpr double map = batch * 16 * pixels * half;  ///< bytes of a map of 16 channels
constexpr double weights2 = 16 * 16 * 9;            ///< elements
constexpr double parameters = 16 * 8 * 9 + weights2 + 4 * 16 + 16 * 10 + 10;

/// Images of 8 channels, two convolutions with batch norm, a residual addition, a linear layer.
graph::Graph two_layers() {
  graph::Graph graph("two layers");
  const auto image = graph.input({8, 4, 4});
  auto node = graph.convolution("conv1", image, 16, {.kernel = 3, .padding = 1});
  node = graph.batch_norm("bn1", node);
  const auto first = graph.relu("relu1", node);
  node = graph.convolution("conv2", first, 16, {.kernel = 3, .padding = 1});
  node = graph.batch_norm("bn2", node);
  node = graph.add("add", node, first);
  node = graph.relu("relu2", node);
  node = graph.global_average_pool("pool", node);
  node = graph.linear("linear", node, 10);
  graph.softmax_cross_entropy("loss", node, {});
  graph.seal();
  return graph;
}

Config bf16_config() {
  Config config;
  config.precision = core::Precision::bf16;
  config.batch_per_rank = static_cast<std::int64_t>(batch);
  return config;
}

class Kernels : public testing::Test {
 protected:
  StepKernels list(const Config& config, const std::vector<OperationChoice>& choices = {},
                   std::optional<BucketPartition> buckets = {}) {
    const std::size_t elements = graph_.parameter_elements();
    return list_kernels(gpu_, config, graph_, choices,
                        buckets ? *buckets : BucketPartition::without_buckets(elements));
  }
  static const KernelWork& find(const StepKernels& kernels, const std::string& what,
                                const std::string& phase) {
    const auto found = std::ranges::find_if(kernels.compute, [&](const KernelWork& work) {
      return work.what.find(what) != std::string::npos && work.phase == phase;
    });
    if (found == kernels.compute.end()) throw std::runtime_error(what + ", " + phase);
    return *found;
  }

  graph::Graph graph_ = two_layers();
  GpuModel gpu_ = ideal_gpu();
};

TEST_F(Kernels, OfConvolutionsReadTwoTensorsAndWriteTheThird) {
  const StepKernels kernels = list(bf16_config());
  const std::string conv = "16x4x4 -> 16x4x4";
  for (const std::string phase : {"forward", "backward data", "backward weights"}) {
    const KernelWork& work = find(kernels, conv, phase);
    EXPECT_EQ(work.flops, 2 * batch * pixels * 16 * 16 * 9) << phase;
    EXPECT_EQ(work.bytes.low, 2 * map + half * weights2) << phase;
    EXPECT_EQ(work.bytes.high, work.bytes.low) << phase;
  }
  // The images need no gradient.
  EXPECT_THROW(find(kernels, "8x4x4 -> 16x4x4", "backward data"), std::runtime_error);
}

TEST_F(Kernels, FollowTheOrderOfTheStep) {
  std::vector<std::string> phases;
  for (const KernelWork& work : list(bf16_config()).compute)
    if (work.what.find("4x4") != std::string::npos) phases.push_back(work.phase);
  EXPECT_EQ(phases, (std::vector<std::string>{"forward", "forward", "forward", "forward",
                                              "forward",  // last: pooling
                                              "backward", "backward", "backward data",
                                              "backward weights", "backward", "backward weights"}));
}

TEST_F(Kernels, OfBatchNormMoveTheMapsOfTheirImplementation) {
  const MapTraffic forward{.read = 2, .written = 1, .read_again = 1, .held = 1, .kernels = 1};
  const MapTraffic backward{.read = 3, .written = 2, .read_again = 2, .held = 2, .kernels = 3};
  gpu_.second_level_cache = 2 * map - 1;
  gpu_.on_chip_memory = {map / 4, map / 4};
  const std::vector<OperationChoice> choices{{norm2, "forward", "", 1, forward},
                                             {norm2, "backward", "", 1, backward}};
  StepKernels kernels = list(bf16_config(), choices);
  const auto norm_of = [&](const std::string& phase, std::size_t index) {
    std::vector<KernelWork> found;
    for (const KernelWork& work : kernels.compute)
      if (work.what.find("batch norm") != std::string::npos && work.phase == phase)
        found.push_back(work);
    return found.at(index);
  };
  // A quarter of the map stays on the chip at best, and nothing at worst.
  EXPECT_EQ(norm_of("forward", 1).bytes.low, 3 * map + 0.75 * map);
  EXPECT_EQ(norm_of("forward", 1).bytes.high, 3 * map + map);
  EXPECT_EQ(norm_of("forward", 1).kind, KernelKind::batch_norm);
  // The two maps exceed the second-level cache by a byte.
  EXPECT_EQ(norm_of("backward", 0).bytes.low, 5 * map + 2 * map);
  EXPECT_EQ(norm_of("backward", 0).kernels, 3);
  EXPECT_EQ(norm_of("backward", 0).kind, KernelKind::streaming);
  gpu_.second_level_cache = 2 * map;
  gpu_.on_chip_memory = {map, map};
  kernels = list(bf16_config(), choices);
  EXPECT_EQ(norm_of("forward", 1).bytes.high, 3 * map);
  EXPECT_EQ(norm_of("backward", 0).bytes.low, 5 * map);
  EXPECT_EQ(norm_of("backward", 0).bytes.high, 7 * map);
}

TEST_F(Kernels, UpdateFromTheNativeGradientsOfOneRank) {
  const StepKernels kernels = list(bf16_config());
  ASSERT_EQ(kernels.updates.size(), 1u);
  const double convolutions = 16 * 8 * 9 + weights2;
  EXPECT_EQ(kernels.updates[0].bytes.low,
            convolutions * (16 + 2 + 2) + (parameters - convolutions) * (16 + 4));
  EXPECT_THROW(find(kernels, "conversion", "backward"), std::runtime_error);
}

TEST_F(Kernels, ConvertAndUpdateGradientsInBucketsForSeveralRanks) {
  const std::size_t elements = graph_.parameter_elements();
  const BucketPartition buckets(elements, 4 * (elements / 2));
  const StepKernels kernels = list(bf16_config(), {}, buckets);
  ASSERT_EQ(kernels.updates.size(), buckets.count());
  double converted = 0, updated = 0;
  std::size_t last = 0;
  for (const KernelWork& work : kernels.compute) {
    EXPECT_GE(work.gradients_final, last) << work.what;
    last = work.gradients_final;
    if (work.what == "conversion of gradients") converted += work.bytes.low;
  }
  for (const KernelWork& work : kernels.updates) updated += work.bytes.low;
  EXPECT_EQ(last, elements);
  const double convolutions = 16 * 8 * 9 + weights2;
  EXPECT_EQ(converted, convolutions * (2 + 4));
  EXPECT_DOUBLE_EQ(updated, convolutions * (16 + 4 + 2) + (parameters - convolutions) * (16 + 4));
}

TEST_F(Kernels, UpdateOnceIfTheUpdateDependsOnAllGradients) {
  const std::size_t elements = graph_.parameter_elements();
  Config config = bf16_config();
  const double plain = list(config).updates[0].bytes.low;
  config.max_gradient_norm = 1;
  const StepKernels kernels = list(config, {}, BucketPartition(elements, 4 * (elements / 2)));
  EXPECT_EQ(kernels.updates.size(), 1u);
  EXPECT_GT(list(config).updates[0].bytes.low, plain);
}

TEST_F(Kernels, OfPaddedImagesReadThePadding) {
  graph::Graph graph("padded");
  auto node = graph.input({3, 4, 4});
  node = graph.convolution("conv", node, 16, {.kernel = 1});
  node = graph.global_average_pool("pool", node);
  graph.softmax_cross_entropy("loss", node, {});
  graph.seal();
  const BucketPartition none = BucketPartition::without_buckets(graph.parameter_elements());
  const StepKernels kernels = list_kernels(gpu_, bf16_config(), graph, {}, none);
  EXPECT_EQ(find(kernels, "3x4x4", "forward").bytes.low,
            half * (batch * (8 + 16) * pixels + 8 * 16));
}

TEST(Tiles, LoseUnusedPartsAndTheLastWave) {
  GpuModel gpu = ideal_gpu();
  gpu.narrow_tile = {0.6, 0.8};
  gpu.multiprocessors = 4;
  EXPECT_EQ(tile_efficiency({.rows = 1024, .columns = 128}, gpu).low, 1);  // 4 tiles of 256x128
  // 5 tiles of 256x128 in 2 waves of 4, or 10 of 128x128 in 3 waves
  EXPECT_DOUBLE_EQ(tile_efficiency({.rows = 1280, .columns = 128}, gpu).low, 10.0 / 12);
  EXPECT_EQ(
      tile_efficiency({.rows = 1280, .columns = 128, .split = ProductShape::Split::reduction}, gpu)
          .low,
      1);
  const Interval narrow = tile_efficiency({.rows = 1024, .columns = 64}, gpu);
  EXPECT_EQ(narrow.low, 0.6);
  EXPECT_EQ(narrow.high, 0.8);
}

TEST(KernelTime, IsTheLongestOfArithmeticBytesAndTheShortestKernelAndTheGap) {
  GpuModel gpu = ideal_gpu();
  gpu.convolution_rate = {0.5, 0.8};
  gpu.convolution_bandwidth = {0.25, 0.5};
  gpu.kernel_gap = {1, 2};
  gpu.kernel_minimum = {3, 4};
  KernelWork work{.kind = KernelKind::convolution, .flops = 8e9, .bytes = {2e9, 3e9}, .kernels = 2};
  EXPECT_DOUBLE_EQ(bound_of(work, gpu), 8);
  EXPECT_DOUBLE_EQ(time_of(work, gpu).low, 8 / 0.8 + 2 * 1);
  EXPECT_DOUBLE_EQ(time_of(work, gpu).high, 8 / 0.5 + 2 * 2);
  work.tiles = {0.5, 0.5};
  EXPECT_DOUBLE_EQ(time_of(work, gpu).low, 8 / 0.4 + 2 * 1);
  work.flops = 0;
  EXPECT_DOUBLE_EQ(bound_of(work, gpu), 2);
  EXPECT_DOUBLE_EQ(time_of(work, gpu).low, 2 * 3 + 2 * 1) << "two kernels take at least 6 s";
  EXPECT_DOUBLE_EQ(time_of(work, gpu).high, 3 / 0.25 + 2 * 2);
}

}  // namespace
}  // namespace lockstep::train
