// SPDX-License-Identifier: BSD-3-Clause
// Tests with offline planning, without a GPU, which convolutions cuDNN can fuse with the sums of
// the batch norm that follows, and that whole networks have a kernel for every operation.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/cuda/dnn/batch_norm_graphs.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/models.hpp"
#include "lockstep/graph/operations.hpp"
#include "planning.hpp"

namespace lockstep::backend::cuda::test {
namespace {

using core::Precision;

/// Returns three convolutions: the first after the stem, a strided one and the last. Not all,
/// because cuDNN compiles their kernels at run time, which takes seconds for each.
std::vector<ConvolutionShape> some_convolutions(Precision precision) {
  const auto all = resnet18_convolutions(precision);
  return {all[1], all[2], all.back()};
}

std::string refusals(const DnnPlanner& planner) {
  std::string all;
  for (const auto& [key, planned] : planner.planned())
    if (planned.graph == nullptr) all += key + ": " + planned.refusal + "\n";
  return all;
}

class FusedSums : public testing::TestWithParam<Case> {};

TEST_P(FusedSums, ExistBehindConvolutions) {
  const auto [device, precision] = GetParam();
  const Target target = described(device);
  DnnPlanner planner = planner_for(target);
  for (const auto& shape : some_convolutions(precision))
    EXPECT_NE(convolution_with_sums(planner, shape, precision).graph, nullptr);
  EXPECT_LE(refusals(planner).size(), precision == Precision::fp16 ? 4096u : 0u)
      << refusals(planner);
  print_table(planner);
}

INSTANTIATE_TEST_SUITE_P(
    Devices, FusedSums,
    testing::Values(Case{"h200", Precision::fp16}, Case{"h200", Precision::bf16},
                    Case{"h200", Precision::tf32}, Case{"a100", Precision::fp16},
                    Case{"a100", Precision::bf16}, Case{"a100", Precision::tf32},
                    Case{"rtx8000", Precision::fp16}),
    case_name);

/// A batch norm without a residual need not read its output in the backward pass.
TEST(RecomputedMask, ExistsInAllDataTypes) {
  const Target target = described("h200");
  DnnPlanner planner = planner_for(target);
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::tf32}) {
    for (const bool has_two : {false, true})
      batch_norm_backward(planner, {images, 64, 32, 32}, precision,
                          {.has_two_gradients = has_two, .mask = ReluMask::recomputed});
  }
  EXPECT_EQ(planner.planned().size(), 6u);
  EXPECT_EQ(refusals(planner), "");
}

TEST(FusedSum, ReductionIsNotDeterministic) {
  const Target target = described("h200");
  DnnPlanner planner = planner_for(target, {.deterministic = true});
  const ConvolutionShape shape{32, 64, 16, 16, 64, 3, 1, 1};
  const auto reductions = convolution_with_sums(planner, shape, Precision::bf16);
  EXPECT_EQ(reductions.graph, nullptr);
  EXPECT_NE(reductions.refusal.find("atomics"), std::string::npos) << reductions.refusal;
  EXPECT_NE(convolution_with_sums(planner, shape, Precision::fp16).graph, nullptr);
}

TEST(FusedSum, Float32WithoutTf32IsRefused) {
  const Target target = described("h200");
  DnnPlanner planner = planner_for(target);
  EXPECT_EQ(convolution_with_sums(planner, {32, 64, 16, 16, 64, 3, 1, 1}, Precision::fp32).graph,
            nullptr);
}

/// The feature maps that the batch norms of an identity block of a ResNet read or write. cuDNN has
/// no single kernel for batch norm on Turing, and with the kernels of this program only a batch
/// norm with a residual reads its output in the backward pass.
TEST(BatchNormMaps, CountEachPassOverAMap) {
  graph::Graph graph("identity block");
  const auto convolution = [&](const std::string& name, graph::NodeId from) {
    return graph.convolution(name, from, 8, {.kernel = 3, .padding = 1});
  };
  const auto first = graph.batch_norm("bn1", convolution("conv1", graph.input({3, 8, 8})));
  const auto residual = graph.relu("relu1", first);
  const auto inner = graph.batch_norm("bn2", convolution("conv2", residual));
  const auto last = graph.batch_norm("bn3", convolution("conv3", graph.relu("relu2", inner)));
  auto node = graph.relu("relu3", graph.add("add", last, residual));
  node = graph.linear("linear", graph.global_average_pool("pool", node), 10);
  graph.softmax_cross_entropy("loss", node, {});
  graph.seal();
  const auto backend =
      make_backend(DeviceOptions{.kind = DeviceKind::cuda, .target_gpu = "rtx8000"});
  std::map<std::pair<graph::NodeId, std::string>, double> maps;
  for (const OperationChoice& choice :
       backend->choices(graph, {.batch = 4, .precision = Precision::fp16}))
    if (choice.maps) maps[{choice.node, choice.phase}] = *choice.maps;
  // Forward: x twice, y, and the residual. Backward: the gradients of the output and x twice, and
  // the gradient of x; `last` reads its output once and stores the gradient of the residual, which
  // its second pass reads instead of them.
  const decltype(maps) expected{{{first, "forward"}, 3}, {{first, "backward"}, 7},
                                {{inner, "forward"}, 3}, {{inner, "backward"}, 5},
                                {{last, "forward"}, 4},  {{last, "backward"}, 7}};
  EXPECT_EQ(maps, expected);
}

/// A complete network, planned as by `lockstep plan --for`.
struct ModelCase {
  const char* device;
  const char* model;
  Precision precision;
  BatchNormFusion fusion = BatchNormFusion::automatic;
};

class WholeModels : public testing::TestWithParam<ModelCase> {};

TEST_P(WholeModels, HaveAKernelForEveryOperation) {
  const auto& [device, model, precision, fusion] = GetParam();
  const auto backend = make_backend(DeviceOptions{.kind = DeviceKind::cuda, .target_gpu = device});
  const graph::Graph graph = graph::make_model(model, {});
  const auto choices =
      backend->choices(graph, {.batch = 64, .precision = precision, .batch_norm_fusion = fusion});
  std::map<graph::NodeId, std::set<std::string>> phases;
  for (const OperationChoice& choice : choices) {
    EXPECT_FALSE(choice.implementation.empty());
    phases[choice.node].insert(choice.phase);
    std::printf("%s %-32s %-17s %s\n", device, graph.node(choice.node).name.c_str(),
                choice.phase.c_str(), choice.implementation.c_str());
  }
  bool is_first = true;  // its input is the images, whose gradient is not needed
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto id = static_cast<graph::NodeId>(i);
    const graph::Node& node = graph.node(id);
    if (node.operation.is<graph::Convolution>()) {
      EXPECT_EQ(phases[id].size(), is_first ? 2u : 3u) << node.name;
      is_first = false;
    } else if (node.operation.is<graph::BatchNorm>()) {
      EXPECT_EQ(phases[id].size(), 2u) << node.name;
    }
  }
  EXPECT_FALSE(is_first) << "a network without convolutions";
}

INSTANTIATE_TEST_SUITE_P(
    Models, WholeModels,
    testing::Values(ModelCase{"h200", "resnet18-cifar", Precision::fp16, BatchNormFusion::sums},
                    ModelCase{"h200", "resnet18-imagenet", Precision::bf16, BatchNormFusion::sums},
                    ModelCase{"h200", "vgg16", Precision::fp16},
                    ModelCase{"a100", "vgg11", Precision::tf32},
                    ModelCase{"rtx8000", "resnet18-cifar", Precision::fp16, BatchNormFusion::sums},
                    ModelCase{"rtx8000", "vgg11", Precision::fp32}),
    [](const auto& test) {
      std::string text = std::string(test.param.device) + "_" + test.param.model + "_" +
                         std::string(core::name(test.param.precision));
      std::ranges::replace(text, '-', '_');
      return text;
    });

}  // namespace
}  // namespace lockstep::backend::cuda::test
