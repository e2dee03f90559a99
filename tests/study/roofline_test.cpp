// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/study/roofline.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/graph/graph.hpp"
#include "lockstep/graph/operations.hpp"
#include "train/delegating_backend.hpp"

namespace lockstep::study {
namespace {

using namespace train;

/// A CPU whose forward pass takes `bfloat16` or `float32` longer, depending on the precision.
class DelayingBackend final : public testing::DelegatingBackend {
 public:
  using Delay = std::chrono::milliseconds;
  DelayingBackend(Delay bfloat16, Delay float32)
      : DelegatingBackend(backend::make_backend(backend::DeviceKind::cpu, 1)),
        bfloat16_(bfloat16),
        float32_(float32) {}

  std::unique_ptr<backend::Plan> compile(const graph::Graph& graph, backend::ModelState& state,
                                         const backend::PlanOptions& options) const override {
    const bool is_bfloat16 = options.precision == core::Precision::bf16;
    listeners_.push_back(
        std::make_unique<Listener>(options.listener, is_bfloat16 ? bfloat16_ : float32_));
    backend::PlanOptions delayed = options;
    delayed.listener = listeners_.back().get();
    return inner().compile(graph, state, delayed);
  }

 private:
  struct Listener final : backend::OperationListener {
    Listener(backend::OperationListener* inner_listener, Delay time)
        : inner(inner_listener), delay(time) {}
    void ended(graph::NodeId node, std::string_view phase) override {
      if (phase == "forward") std::this_thread::sleep_for(delay);
      inner->ended(node, phase);
    }
    backend::OperationListener* inner;
    Delay delay;
  };
  Delay bfloat16_, float32_;
  mutable std::vector<std::unique_ptr<Listener>> listeners_;
};

graph::Graph linear_network() {
  graph::Graph graph("linear");
  const auto x = graph.linear("linear", graph.flatten("flatten", graph.input({3, 4, 4})), 10);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  return graph;
}

double relative_time(int bfloat16_ms, int float32_ms) {
  using Delay = DelayingBackend::Delay;
  const DelayingBackend backend{Delay(bfloat16_ms), Delay(float32_ms)};
  return relative_step_time({.batch = timed_batch(4, 1), .precision = core::Precision::bf16},
                            linear_network(), backend);
}

TEST(RelativeStepTime, IsTheTimeInThePrecisionDividedByThatInFloat32) {
  // The sleeps are the shortest of several, but other processes may extend all of one attempt.
  const auto expect_near = [](int bfloat16_ms, int float32_ms, double expected, double tolerance) {
    double ratio = 0;
    for (int attempt = 0; attempt < 20 && std::abs(ratio - expected) > tolerance; ++attempt)
      ratio = relative_time(bfloat16_ms, float32_ms);
    EXPECT_NEAR(ratio, expected, tolerance);
  };
  expect_near(40, 10, 4, 1);
  expect_near(10, 40, 0.25, 0.1);
}

TEST(RelativeStepTime, UsesFewerImagesThanTheTraining) {
  EXPECT_EQ(timed_batch(1, 1), 1);
  EXPECT_EQ(timed_batch(33, 1), 17);
  EXPECT_EQ(timed_batch(128, 1), 32);
  EXPECT_EQ(timed_batch(128, 2), 64);
}

}  // namespace
}  // namespace lockstep::study
