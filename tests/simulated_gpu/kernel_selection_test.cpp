// SPDX-License-Identifier: BSD-3-Clause
// Tests the selection of kernels for whole networks on a simulated GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "backend/support.hpp"
#include "expect_error.hpp"
#include "simulated_gpu/engines.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::backend::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

graph::Graph block() {
  const auto networks = small_networks();
  return std::ranges::find(networks, "block_strided", &Network::name)->graph;
}

class KernelSelection : public ::testing::Test {
 protected:
  void TearDown() override {
    simulated_gpu::set_engines({});
    simulated_gpu::set_free_memory(std::size_t{1} << 33);
  }
};

/// Counts the sums of batch norms over replicas.
class CountedSums final : public core::StatisticsAllReduce {
 public:
  int replicas() const override { return 2; }
  void sum(std::span<float>) override { ++count_; }
  int count() const { return count_; }

 private:
  int count_ = 0;
};

// Ranks need not have the same engine cache, so that they need not time the same passes: a
// collective in a trial would wait for ranks that do not time.
TEST_F(KernelSelection, PlanningWithSynchronisedBatchNormIsNotCollective) {
  const graph::Graph graph = block();
  const auto backend = make_backend(DeviceKind::cuda, 1);
  CountedSums sums;
  const PlanOptions options{.batch = 2, .batch_norm_sum = &sums};
  backend->memory(graph, options);
  ModelState state = backend->make_state(graph);
  const auto plan = backend->compile(graph, state, options);
  EXPECT_EQ(sums.count(), 0);
  // All ranks must use implementations with the same collectives.
  for (const OperationChoice& choice : plan->choices()) {
    if (graph.node(choice.node).operation.is<graph::BatchNorm>()) {
      EXPECT_EQ(choice.implementation, "two passes");
    }
  }
}

TEST_F(KernelSelection, QuickBackendTimesNothingAndUsesItsOwnBatchNorm) {
  const graph::Graph graph = block();
  const auto backend = make_backend({.kind = DeviceKind::cuda, .engines = EngineSelection::quick});
  simulated_gpu::set_engines(
      {{.name = "compiled", .is_runtime_compiled = true}, {.name = "first"}, {.name = "second"}});
  ModelState state = backend->make_state(graph);
  const auto plan = backend->compile(graph, state, {.batch = 2});
  EXPECT_THAT(simulated_gpu::engine_calls().run, IsEmpty());
  EXPECT_THAT(simulated_gpu::engine_calls().built, ::testing::Each("first"));
  for (const OperationChoice& choice : plan->choices()) {
    const auto& operation = graph.node(choice.node).operation;
    if (operation.is<graph::BatchNorm>()) {
      EXPECT_EQ(choice.implementation, "two passes");
    } else if (operation.is<graph::Convolution>()) {
      EXPECT_EQ(simulated_gpu::engine_name(choice.implementation), "first");
    }
  }
}

TEST_F(KernelSelection, LeastMemoryIsALowerBoundAndSelectsNoEngine) {
  const graph::Graph graph = block();
  const auto backend = make_backend(DeviceKind::cuda, 1);
  using enum core::Precision;
  for (const core::Precision precision : {fp32, fp16}) {
    for (const BatchNormFusion fusion :
         {BatchNormFusion::automatic, BatchNormFusion::none, BatchNormFusion::sums}) {
      const PlanOptions options{.batch = 6, .precision = precision, .batch_norm_fusion = fusion};
      simulated_gpu::set_engines({{.name = "one", .workspace_bytes = 4096}, {.name = "two"}});
      const MemoryUse least = backend->least_memory(graph, options);
      EXPECT_THAT(simulated_gpu::engine_calls().built, IsEmpty());
      const MemoryUse planned = backend->memory(graph, options);
      EXPECT_LE(least.total(), planned.total());
      EXPECT_EQ(least.state, planned.state);
      EXPECT_EQ(least.weights, planned.weights);
      EXPECT_GE(least.activations, planned.activations / 2) << "a useful bound";
    }
  }
}

TEST_F(KernelSelection, OldLibraryIsRefused) {
  const auto open = [] { make_backend(DeviceKind::cuda, 1); };
  for (const std::size_t version : {90905, 8907}) {
    simulated_gpu::set_dnn_version(version);
    expect_error(core::ExitStatus::usage, {"cuDNN", "is loaded", "9.10 or newer"}, open);
  }
  simulated_gpu::set_dnn_version(91000);
  EXPECT_NO_THROW(open());
  simulated_gpu::set_dnn_version(0);
}

TEST_F(KernelSelection, EngineLogIsForGpusOnly) {
  try {
    make_backend({.kind = DeviceKind::cpu, .engine_log = "/dev/null"});
    FAIL() << "accepted";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::usage);
    EXPECT_THAT(error.what(), HasSubstr("--engine-log"));
  }
}

}  // namespace
}  // namespace lockstep::backend::test
