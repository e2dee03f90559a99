// SPDX-License-Identifier: BSD-3-Clause
// Tests with offline planning, without a GPU, whether cuDNN supports every graph of the CUDA
// backend on the GPUs that the program supports. No graph is executed.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/dnn/batch_norm_graphs.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/graph/models.hpp"
#include "lockstep/graph/operations.hpp"
#include "planning.hpp"

namespace lockstep::backend::cuda::test {
namespace {

using core::Precision;

std::string message_of(const auto& action) {
  try {
    action();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::usage) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

class Convolutions : public testing::TestWithParam<Case> {};

TEST_P(Convolutions, OfResNet18HaveEngines) {
  const auto [device, precision] = GetParam();
  const Target target = described(device);
  DnnPlanner planner = planner_for(target);
  const auto shapes = resnet18_convolutions(precision);
  ASSERT_EQ(shapes.size(), 11u);
  for (const auto& shape : shapes) {
    EXPECT_NO_THROW(convolution_forward(planner, shape, precision));
    EXPECT_NO_THROW(convolution_backward_weights(planner, shape, precision));
    // The input of the stem is the images, whose gradient is not needed.
    if (shape.in_channels >= 64) {
      EXPECT_NO_THROW(convolution_backward_data(planner, shape, precision));
    }
  }
  EXPECT_EQ(planner.planned().size(), 32u);
  for (const auto& [key, planned] : planner.planned()) {
    ASSERT_NE(planned.graph, nullptr) << key;
    EXPECT_LE(planned.graph->workspace_bytes(), planner.rules_for(precision).workspace_limit)
        << key;
    EXPECT_EQ(planned.graph->seconds(), 0) << key;
  }
  print_table(planner);
}

INSTANTIATE_TEST_SUITE_P(
    Devices, Convolutions,
    testing::Values(Case{"h200", Precision::fp32}, Case{"h200", Precision::tf32},
                    Case{"h200", Precision::bf16}, Case{"h200", Precision::fp16},
                    Case{"a100", Precision::fp32}, Case{"a100", Precision::tf32},
                    Case{"a100", Precision::bf16}, Case{"a100", Precision::fp16},
                    Case{"rtx8000", Precision::fp32}, Case{"rtx8000", Precision::fp16}),
    case_name);

TEST(LinearLayer, HasEngines) {
  for (const char* device : {"h200", "a100", "rtx8000"}) {
    const Target target = described(device);
    DnnPlanner planner = planner_for(target);
    for (const Precision precision : {Precision::fp32, Precision::tf32}) {
      if (precision == Precision::tf32 && target.info().compute_capability < 80) continue;
      for (const auto& [in, out] : {std::pair{512, 10}, {25088, 4096}, {4096, 1000}, {17, 7}}) {
        const ConvolutionShape shape{128, in, 1, 1, out, 1};
        EXPECT_NO_THROW(convolution_forward(planner, shape, precision, BiasVector::added));
        EXPECT_NO_THROW(convolution_backward_data(planner, shape, precision));
        EXPECT_NO_THROW(convolution_backward_weights(planner, shape, precision));
      }
    }
  }
}

TEST(Convolution, WithBiasHasAnEngine) {
  for (const char* device : {"h200", "rtx8000"}) {
    const Target target = described(device);
    DnnPlanner planner = planner_for(target);
    for (const Precision precision : {Precision::fp32, Precision::fp16})
      EXPECT_NE(convolution_forward(planner, {32, 64, 16, 16, 128, 3, 1, 1}, precision,
                                    BiasVector::added),
                nullptr);
  }
}

TEST(Convolution, ThatRepeatsIsSharedAndPlannedOnce) {
  const Target target = described("h200");
  DnnPlanner planner = planner_for(target);
  const ConvolutionShape shape{32, 64, 16, 16, 64, 3, 1, 1};
  const auto first = convolution_forward(planner, shape, Precision::bf16);
  EXPECT_EQ(convolution_forward(planner, shape, Precision::bf16), first);
  EXPECT_NE(convolution_forward(planner, shape, Precision::fp16), first);
  EXPECT_EQ(planner.planned().size(), 2u);
}

TEST(Convolution, PlanForATargetGpuCannotRun) {
  const Target target = described("h200");
  DnnPlanner planner = planner_for(target);
  const auto graph = convolution_forward(planner, {32, 64, 16, 16, 64, 3, 1, 1}, Precision::bf16);
  EXPECT_THROW(graph->run({}, nullptr), core::Error);
}

TEST(Convolution, OnTuringHasNoBfloat16) {
  const Target target = described("rtx8000");
  DnnPlanner planner = planner_for(target);
  const auto message = message_of([&] {
    convolution_forward(planner, {32, 64, 16, 16, 64, 3, 1, 1}, Precision::bf16);
  });
  EXPECT_NE(message.find("Quadro RTX 8000"), std::string::npos) << message;
  EXPECT_NE(message.find("--precision"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(Convolution, WorkspaceLimitOfZeroSelectsEnginesWithoutWorkspace) {
  const Target target = described("h200");
  DnnPlanner planner = planner_for(target, {.workspace_limit = 0});
  const auto graph =
      convolution_forward(planner, {images, 64, 32, 32, 128, 1, 2, 0}, Precision::bf16);
  EXPECT_EQ(graph->workspace_bytes(), 0u);
}

class BatchNorms : public testing::TestWithParam<Case> {};

/// cuDNN compiles each graph, which takes about a second. Therefore all variants are planned for
/// one size, and for the other sizes only the two with the most operands (in bf16).
TEST_P(BatchNorms, OfResNet18HaveOneKernel) {
  const auto [device, precision] = GetParam();
  const Target target = described(device);
  DnnPlanner planner = planner_for(target);
  const BatchNormShape middle{images, 128, 16, 16};
  for (const auto tail : {BatchNormTail::none, BatchNormTail::relu, BatchNormTail::add_relu})
    batch_norm_forward(planner, middle, precision, tail, epsilon, momentum);
  const BatchNormGradientFlow block_end{
      .has_two_gradients = true, .mask = ReluMask::from_output, .writes_masked = true};
  // The batch norms of a shortcut, the first of a block, of the stem, the last of a block, and the
  // last of the network.
  for (const BatchNormGradientFlow& flow : std::vector<BatchNormGradientFlow>{
           {},
           {.mask = ReluMask::from_output},
           {.has_two_gradients = true, .mask = ReluMask::from_output},
           block_end,
           {.mask = ReluMask::from_output, .writes_masked = true}})
    batch_norm_backward(planner, middle, precision, flow);
  std::size_t expected = 8;
  if (precision == Precision::bf16) {
    for (const BatchNormShape& shape : std::vector<BatchNormShape>{
             {images, 64, 32, 32}, {images, 256, 8, 8}, {images, 512, 4, 4}}) {
      batch_norm_forward(planner, shape, precision, BatchNormTail::add_relu, epsilon, momentum);
      batch_norm_backward(planner, shape, precision, block_end);
    }
    expected += 6;
  }
  EXPECT_EQ(planner.planned().size(), expected);
  for (const auto& [key, planned] : planner.planned())
    EXPECT_NE(planned.graph, nullptr) << key << ": " << planned.refusal;
  print_table(planner);
}

// tf32 is left out: its graphs are those of fp32.
INSTANTIATE_TEST_SUITE_P(
    Devices, BatchNorms,
    testing::Values(Case{"h200", Precision::bf16}, Case{"h200", Precision::fp16},
                    Case{"h200", Precision::fp32}, Case{"a100", Precision::bf16},
                    Case{"a100", Precision::fp16}, Case{"a100", Precision::fp32}),
    case_name);

TEST(BatchNorm, OnTuringIsRefusedWithAReason) {
  const Target target = described("rtx8000");
  DnnPlanner planner = planner_for(target);
  const BatchNormShape shape{32, 64, 8, 8};
  for (const Precision precision : {Precision::fp16, Precision::fp32}) {
    const auto forward =
        batch_norm_forward(planner, shape, precision, BatchNormTail::relu, epsilon, momentum);
    EXPECT_EQ(forward.graph, nullptr);
    EXPECT_FALSE(forward.refusal.empty());
    EXPECT_EQ(forward.refusal.find('\n'), std::string::npos) << forward.refusal;
    const auto backward = batch_norm_backward(planner, shape, precision, {});
    EXPECT_EQ(backward.graph, nullptr);
    EXPECT_FALSE(backward.refusal.empty());
  }
  print_table(planner);
}

/// Plans batch norm, followed by `operation` with a residual and a ReLU. cuDNN has an engine only
/// if `operation` is the addition.
PlannedGraph norm_with_residual(DnnPlanner& planner, Pointwise operation, std::string key) {
  const Extents map{32, 64, 8, 8}, vector{1, 64, 1, 1};
  const auto bf16 = core::DataType::bfloat16, fp32 = core::DataType::float32;
  const auto define = [&](OperationGraph& graph) {
    const auto norm = graph.batch_norm(graph.input(1, map, bf16), graph.input(2, vector, fp32),
                                       graph.input(3, vector, fp32), graph.input(4, vector, fp32),
                                       graph.input(5, vector, fp32), epsilon, momentum);
    graph.output(norm.mean, 6, fp32);
    graph.output(norm.inverse_deviation, 7, fp32);
    graph.output(norm.running_mean, 8, fp32);
    graph.output(norm.running_variance, 9, fp32);
    const auto sum = graph.pointwise(operation, norm.y, graph.input(10, map, bf16));
    graph.output(graph.pointwise(Pointwise::relu, sum), 11, bf16);
  };
  return planner.plan({std::move(key), define}, Precision::bf16, {.rounds_inside = true});
}

/// With a limit, cuDNN compiles other kernels. A limit of all multiprocessors changes nothing.
TEST(BatchNorm, IsPlannedForTheGivenNumberOfMultiprocessors) {
  const Target target = described("h200");
  const auto workspace = [&](int multiprocessors) {
    DnnPlanner planner = planner_for(target, {.batch_norm_multiprocessors = multiprocessors});
    return batch_norm_forward(planner, {images, 128, 16, 16}, Precision::bf16, BatchNormTail::relu,
                              epsilon, momentum)
        .graph->workspace_bytes();
  };
  EXPECT_NE(workspace(100), workspace(0));
  EXPECT_EQ(workspace(132), workspace(0));
}

TEST(BatchNorm, WithAProductForTheSumIsRefused) {
  const Target target = described("h200");
  DnnPlanner planner = planner_for(target);
  EXPECT_NE(norm_with_residual(planner, Pointwise::add, "right").graph, nullptr);
  const auto wrong = norm_with_residual(planner, Pointwise::multiply, "wrong");
  EXPECT_EQ(wrong.graph, nullptr) << wrong.graph->engine();
  EXPECT_FALSE(wrong.refusal.empty());
}

TEST(EngineRules, DropWhatBreaksThem) {
  const GraphNature products{.has_products = true}, sums{.has_fused_sums = true};
  const EngineRules exact{.deterministic = true, .true_fp32 = true};
  EXPECT_EQ(broken_rule({.tensor_core = true, .nondeterministic = true}, {}, products), "");
  EXPECT_NE(broken_rule({.tensor_core = true}, exact, products), "");
  EXPECT_NE(broken_rule({.down_converts = true}, exact, products), "");
  EXPECT_EQ(broken_rule({.tensor_core = true}, exact, {}), "");
  EXPECT_NE(broken_rule({.nondeterministic = true}, exact, {}), "");
  EXPECT_NE(broken_rule({.runtime_compiled = true}, exact, sums), "");
  EXPECT_NE(broken_rule({.runtime_compiled = true}, {.selection = EngineSelection::quick}, {}), "");
  EXPECT_EQ(broken_rule({.runtime_compiled = true}, exact, products), "");
}

/// Returns the properties of the engines for the weight gradient of the stem in float32, by name.
std::map<std::string, EngineFacts> stem_engines(const Target& target) {
  OperationGraph graph(target, core::DataType::float32);
  const auto type = core::DataType::float32;
  const auto dy = graph.input(1, {images, 64, 32, 32}, type);
  const auto x = graph.input(2, {images, 4, 32, 32}, type);
  graph.output(graph.convolution_backward_weights(dy, x, {64, 4, 3, 3}, {1, 1}), 3, type);
  EXPECT_EQ(graph.seal(), std::nullopt);
  const auto ports = graph.ports();
  EXPECT_EQ(ports.size(), 3u);
  EXPECT_EQ(ports.back().bytes, 64u * 4 * 9 * sizeof(float));
  EXPECT_EQ(graph.find_engines(Heuristics::best_first), std::nullopt);
  static_cast<void>(graph.find_engines(Heuristics::fallback));
  std::map<std::string, EngineFacts> engines;
  for (std::size_t i = 0; i < graph.engines(); ++i) engines[graph.facts(i).name] = graph.facts(i);
  return engines;
}

TEST(EngineRules, AreKeptByWhatIsChosen) {
  const Target target = described("h200");
  const ConvolutionShape stem{images, 4, 32, 32, 64, 3, 1, 1};
  const auto engines = stem_engines(target);
  const auto any_is = [&](bool EngineFacts::*fact) {
    return std::any_of(engines.begin(), engines.end(),
                       [&](const auto& engine) { return engine.second.*fact; });
  };
  ASSERT_TRUE(any_is(&EngineFacts::nondeterministic)) << "nothing to refuse";
  ASSERT_TRUE(any_is(&EngineFacts::tensor_core)) << "nothing to refuse";
  DnnPlanner planner = planner_for(target, {.deterministic = true});
  const auto exact = convolution_backward_weights(planner, stem, Precision::fp32);
  EXPECT_FALSE(engines.at(exact->engine()).nondeterministic) << exact->engine();
  EXPECT_FALSE(engines.at(exact->engine()).tensor_core) << exact->engine();
  const auto rounded = convolution_backward_weights(planner, stem, Precision::tf32);
  EXPECT_FALSE(engines.at(rounded->engine()).nondeterministic) << rounded->engine();
  EXPECT_TRUE(engines.at(rounded->engine()).tensor_core) << rounded->engine();
}

/// Serialises and restores two engines: a precompiled one, and one that is compiled at run time.
TEST(Engines, AreRestoredFromTheirBytes) {
  const Target target = described("h200");
  const Extents map{32, 64, 8, 8}, vector{1, 64, 1, 1};
  const auto type = core::DataType::bfloat16;
  for (const bool adds_scaled : {false, true}) {
    OperationGraph graph(target, core::DataType::float32);
    const auto x = graph.input(1, map, type);
    if (adds_scaled) {
      const auto scale = graph.input(2, vector, core::DataType::float32);
      const auto y = graph.pointwise(Pointwise::multiply, x, scale);
      graph.output(graph.pointwise(Pointwise::add, y, graph.constant(1)), 3, type);
    } else {
      graph.output(graph.convolution(x, graph.input(2, {64, 64, 3, 3}, type), {1, 1}), 3, type);
    }
    ASSERT_EQ(graph.seal(), std::nullopt);
    ASSERT_EQ(graph.find_engines(Heuristics::best_first), std::nullopt);
    ASSERT_EQ(graph.build(0, EngineRules{}.workspace_limit), std::nullopt);
    const auto bytes = graph.serialise(0);
    ASSERT_FALSE(bytes.empty());
    const auto copy = graph.restored(bytes, graph.facts(0).name);
    ASSERT_NE(copy, nullptr);
    EXPECT_EQ(copy->facts(0).name, graph.facts(0).name);
    EXPECT_EQ(copy->workspace_bytes(0), graph.workspace_bytes(0));
    EXPECT_EQ(copy->serialise(0).size(), bytes.size());
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, bytes.size() / 2})
      EXPECT_EQ(graph.restored(std::span(bytes).first(length), "cut"), nullptr) << length;
  }
}

TEST(Devices, DescribedAreThoseOfTheFolder) {
  std::set<std::string_view> names;
  for (const DescribedDevice& device : described_devices()) names.insert(device.name);
  EXPECT_EQ(names, (std::set<std::string_view>{"a100", "b200", "h100", "h200", "l40s", "rtx8000"}));
  const Target target = described("h200");
  EXPECT_EQ(target.info().name, "NVIDIA H200");
  EXPECT_EQ(target.info().compute_capability, 90);
  EXPECT_EQ(target.info().multiprocessors, 132);
  EXPECT_FALSE(target.is_present());
  EXPECT_NE(message_of([] { described("h300"); }).find("h200"), std::string::npos);
}

TEST(Devices, OlderThanTuringAreRefused) {
  DeviceInfo volta;
  volta.compute_capability = 70;
  const auto message = message_of([&] { check_supported(volta); });
  EXPECT_NE(message.find("compute capability 7.0"), std::string::npos) << message;
}

TEST(Devices, AbsentDeviceIsOneErrorLine) {
  open_planning_driver();  // hides the GPU if one is present
  EXPECT_EQ(device_count(), 0);
  const auto message = message_of([] { Target::device(0); });
  EXPECT_NE(message.find("no NVIDIA GPU"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(CudaBackend, EstimatesTheMemoryOfStages) {
  const auto backend = make_backend(DeviceOptions{.kind = DeviceKind::cuda, .target_gpu = "h200"});
  const graph::Graph network = graph::make_model("resnet18-cifar", {});
  const MemoryUse whole = backend->least_memory(network, {.batch = 2});
  std::size_t state = 0;
  for (const graph::Graph& stage : network.cut(2)) {
    const MemoryUse use = backend->least_memory(stage, {.batch = 2});
    state += use.state;
    EXPECT_LT(use.activations, whole.activations);
  }
  EXPECT_EQ(state, whole.state);
}

}  // namespace
}  // namespace lockstep::backend::cuda::test
