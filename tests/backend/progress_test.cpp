// SPDX-License-Identifier: BSD-3-Clause
// Tests that plans report progress after each operation, so that the watchdog does not abort a pass
// that is slow but makes progress.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/progress.hpp"
#include "lockstep/graph/operations.hpp"
#include "support.hpp"

namespace lockstep::backend::test {
namespace {

class Counter final : public core::ProgressMonitor {
 public:
  void begin(core::Activity, std::int64_t) override { ++count_; }
  void advance() noexcept override { ++count_; }
  /// Returns the number of reports since the last call.
  std::size_t take() { return std::exchange(count_, 0); }

 private:
  std::size_t count_ = 0;
};

class ProgressTest : public testing::TestWithParam<DeviceKind> {};

TEST_P(ProgressTest, EachOperationOfAPassIsReported) {
  graph::Graph graph("three convolutions");
  auto node = graph.input({3, 8, 8});
  for (const char* name : {"a", "b", "c"}) {
    node = graph.convolution(name, node, 16, {.kernel = 3, .stride = 1, .padding = 1});
  }
  node = graph.global_average_pool("pool", node);
  node = graph.linear("linear", node, 10);
  graph.softmax_cross_entropy("loss", node, {});
  graph.seal();
  const std::size_t operations = graph.nodes().size() - 1;  // the input node computes nothing

  Counter counter;
  const auto backend = make_backend({.kind = GetParam(), .threads = 1, .progress = &counter});
  ModelState state = backend->make_state(graph);
  const PlanOptions options{.batch = 4};
  const auto plan = backend->compile(graph, state, options);
  if (GetParam() == DeviceKind::cpu) {
    EXPECT_GE(counter.take(), operations) << "preparing the operations";
  }
  const Batch batch = random_batch(graph, 4, 1);
  plan->upload(batch.images, batch.labels);
  counter.take();
  plan->forward();
  EXPECT_GE(counter.take(), operations) << "forward";
  core::NoGradientListener nobody;
  plan->backward(nobody);
  EXPECT_GE(counter.take(), operations) << "backward";
}

INSTANTIATE_TEST_SUITE_P(Devices, ProgressTest,
                         testing::Values(DeviceKind::reference, DeviceKind::cpu),
                         [](const auto& instance) {
                           return std::string(core::name(instance.param));
                         });

TEST(Progress, TimingOfKernelsIsReported) {
  // The network contains a convolution that is large enough for Winograd's algorithm, so the
  // backend times this algorithm and the direct one to choose between them.
  graph::Graph graph("one convolution");
  auto node = graph.input({3, 32, 32});
  node = graph.convolution("first", node, 64, {.kernel = 3, .stride = 1, .padding = 1});
  node = graph.convolution("second", node, 64, {.kernel = 3, .stride = 1, .padding = 1});
  node = graph.global_average_pool("pool", node);
  node = graph.linear("linear", node, 10);
  graph.softmax_cross_entropy("loss", node, {});
  graph.seal();
  const auto reports = [&](ConvolutionAlgorithm algorithm, bool is_deterministic = false) {
    Counter counter;
    const auto backend = make_backend({.kind = DeviceKind::cpu,
                                       .threads = 1,
                                       .deterministic = is_deterministic,
                                       .progress = &counter});
    PlanOptions options{.batch = 4};
    options.convolution_algorithm = algorithm;
    static_cast<void>(backend->choices(graph, options));
    return counter.take();
  };
  EXPECT_GT(reports(ConvolutionAlgorithm::automatic), reports(ConvolutionAlgorithm::direct));
  EXPECT_EQ(reports(ConvolutionAlgorithm::automatic, true), reports(ConvolutionAlgorithm::direct))
      << "a deterministic backend times nothing";
}

}  // namespace
}  // namespace lockstep::backend::test
