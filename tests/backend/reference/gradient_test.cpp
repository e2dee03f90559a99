// SPDX-License-Identifier: BSD-3-Clause
// Compares the gradients of the reference with central differences of its own loss, in float64.
//
// The error of (L(p + h) - L(p - h)) / 2h consists of h^2 L'''/6 and of rounding, 1e-16 L / h.
// Parameters are float32. The step in the denominator is the difference of the two values as
// stored, which is exact in float64; their midpoint differs from p by at most half the spacing of
// float32, 3e-8. With h = 2^-20 these errors are below 1e-8, and gradients are stored as float32
// (6e-8 relative), so a tolerance of 1e-6 of the largest gradient of the tensor is sufficient. If a
// kink of a ReLU or a max-pool were within h of a value, the error would be larger; with the seeds
// below there is none.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "backend/support.hpp"

namespace lockstep::backend::test {
namespace {

class ReferenceGradient : public testing::TestWithParam<std::tuple<Network, std::int64_t>> {};

double mean_loss(Plan& plan) {
  plan.forward();
  return plan.result().loss_sum / static_cast<double>(plan.result().images);
}

/// Returns the distance between the elements that are tested: all elements of small tensors, about
/// 20 of large ones.
std::size_t stride_over(const graph::Parameter& parameter) {
  return std::max<std::size_t>(1, parameter.elements / 20);
}

TEST_P(ReferenceGradient, EqualsCentralDifference) {
  const auto& [network, batch] = GetParam();
  Replica replica(DeviceKind::reference, 1, network.graph, {.batch = batch}, 3);
  replica.step(random_batch(network.graph, batch, 4));
  for (const graph::Parameter& parameter : network.graph.parameters()) {
    const auto values = replica.parameters().subspan(parameter.offset, parameter.elements);
    const auto gradients = replica.gradients().subspan(parameter.offset, parameter.elements);
    double largest = 0;
    for (const float gradient : gradients) largest = std::max(largest, std::abs(double{gradient}));
    for (std::size_t i = 0; i < values.size(); i += stride_over(parameter)) {
      const float value = values[i];
      values[i] = value + 0x1p-20f;
      const double above = values[i];
      const double loss_above = mean_loss(*replica.plan);
      values[i] = value - 0x1p-20f;
      const double below = values[i];
      const double loss_below = mean_loss(*replica.plan);
      values[i] = value;
      const double expected = (loss_above - loss_below) / (above - below);
      ASSERT_NEAR(gradients[i], expected, 1e-6 * largest + 1e-9)
          << parameter.name << '[' << i << ']';
    }
  }
}

INSTANTIATE_TEST_SUITE_P(SmallNetworks, ReferenceGradient,
                         testing::Combine(testing::ValuesIn(small_networks()),
                                          testing::Values(1, 2, 3)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "_batch" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace lockstep::backend::test
