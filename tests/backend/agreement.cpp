// SPDX-License-Identifier: BSD-3-Clause
#include "backend/agreement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace lockstep::backend::test {

namespace {

/// Returns the number of images whose two largest logits differ by at most `distance`, so that
/// rounding may change the prediction.
std::int64_t close_calls(std::span<const float> scores, std::int64_t classes, double distance) {
  std::int64_t close = 0;
  for (std::size_t first = 0; first < scores.size(); first += classes) {
    std::vector<float> sorted(scores.begin() + first, scores.begin() + first + classes);
    std::ranges::sort(sorted, std::greater());
    if (sorted[0] - sorted[1] <= distance) ++close;
  }
  return close;
}

}  // namespace

void expect_same_forward(const graph::Graph& graph, Replica& reference, Replica& device,
                         double tolerance) {
  SCOPED_TRACE(describe_choices(graph, *device.plan));
  const BatchResult want = reference.plan->result();
  const BatchResult got = device.plan->result();
  const auto images = static_cast<double>(want.images);
  const auto scores = reference.plan->logits();
  const auto count = static_cast<std::size_t>(want.images * graph.classes());
  ASSERT_EQ(got.images, want.images);
  ASSERT_EQ(scores.size(), count);
  ASSERT_GE(device.plan->logits().size(), count);
  EXPECT_LE(relative_error(device.plan->logits().first(count), scores), tolerance) << "scores";
  EXPECT_NEAR(got.loss_sum / images, want.loss_sum / images, tolerance * want.loss_sum / images);
  const double largest =
      std::abs(std::ranges::max(scores, {}, [](float x) { return std::abs(x); }));
  const std::int64_t close = close_calls(scores, graph.classes(), 4 * tolerance * largest);
  EXPECT_LE(std::abs(got.correct - want.correct), close) << "hits";
  EXPECT_EQ(device.state.batches_tracked, reference.state.batches_tracked);
  for (const graph::Statistic& statistic : graph.statistics()) {
    EXPECT_LE(relative_error(device.statistics().subspan(statistic.offset, statistic.elements),
                             reference.statistics().subspan(statistic.offset, statistic.elements)),
              tolerance)
        << statistic.name;
  }
}

void expect_same_gradients(const graph::Graph& graph, Replica& reference, Replica& device,
                           double tolerance) {
  SCOPED_TRACE(describe_choices(graph, *device.plan));
  for (const graph::Parameter& parameter : graph.parameters()) {
    const auto want = reference.gradients().subspan(parameter.offset, parameter.elements);
    const auto got = device.gradients().subspan(parameter.offset, parameter.elements);
    const graph::Node& node = graph.node(parameter.node);
    double scale = norm(want);
    if (node.operation.is<graph::Convolution>() && want.size() == 1) continue;
    if (node.operation.is<graph::Convolution>()) {
      const graph::Parameter& weight = graph.parameters()[node.parameters[0]];
      scale = norm(reference.gradients().subspan(weight.offset, weight.elements));
    }
    EXPECT_LE(relative_error(got, want, scale), tolerance) << parameter.name;
  }
}

}  // namespace lockstep::backend::test
