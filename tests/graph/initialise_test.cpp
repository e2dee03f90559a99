// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/graph/graph.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/models.hpp"

namespace lockstep::graph {
namespace {

class Initialise : public testing::Test {
 protected:
  std::vector<float> initialised(std::uint64_t seed, float before = 0) const {
    std::vector<float> values(graph_.parameter_elements(), before);
    initialise_parameters(graph_, seed, values);
    return values;
  }

  const Graph graph_ = make_model("vgg11", {});
};

TEST_F(Initialise, UniformWithinOneOverTheRootOfTheInputs) {
  const auto values = initialised(1);
  for (const Parameter& parameter : graph_.parameters()) {
    if (parameter.fan_in == 0) continue;
    const auto tensor = std::span(values).subspan(parameter.offset, parameter.elements);
    const double bound = 1 / std::sqrt(static_cast<double>(parameter.fan_in));
    double squares = 0;
    for (const float value : tensor) {
      ASSERT_LE(std::abs(value), bound * (1 + 1e-6)) << parameter.name;
      squares += double{value} * value;
    }
    // The variance is bound^2 / 3. The mean square of n values has a relative standard deviation of
    // sqrt(4 / (5 n)); the tolerance is five standard deviations.
    const auto count = static_cast<double>(parameter.elements);
    EXPECT_NEAR(squares / count / (bound * bound / 3), 1, 5 * std::sqrt(0.8 / count))
        << parameter.name;
  }
}

TEST_F(Initialise, BatchNormsStartAsTheIdentity) {
  const auto values = initialised(1, 5);
  for (const Parameter& parameter : graph_.parameters()) {
    if (parameter.fan_in != 0) continue;
    const float start = parameter.name.ends_with(".weight") ? 1.0f : 0.0f;
    EXPECT_TRUE(std::ranges::all_of(std::span(values).subspan(parameter.offset, parameter.elements),
                                    [&](float value) { return value == start; }))
        << parameter.name;
  }
}

TEST_F(Initialise, DependsOnlyOnTheSeed) {
  EXPECT_EQ(initialised(1), initialised(1));
  EXPECT_NE(initialised(1), initialised(2));
}

TEST_F(Initialise, TensorsOfTheSameShapeDiffer) {
  const auto values = initialised(1);
  std::vector<float> firsts;
  for (const Parameter& parameter : graph_.parameters()) {
    if (parameter.fan_in != 0)
      firsts.push_back(values[parameter.offset] * std::sqrt(static_cast<float>(parameter.fan_in)));
  }
  std::ranges::sort(firsts);
  EXPECT_EQ(std::ranges::adjacent_find(firsts), firsts.end());
}

TEST_F(Initialise, StatisticsStartAtMeanZeroAndVarianceOne) {
  std::vector<float> values(graph_.statistic_elements(), 5);
  initialise_statistics(graph_, values);
  for (const Statistic& statistic : graph_.statistics()) {
    const float start = statistic.name.ends_with("running_var") ? 1.0f : 0.0f;
    EXPECT_TRUE(std::ranges::all_of(std::span(values).subspan(statistic.offset, statistic.elements),
                                    [&](float value) { return value == start; }))
        << statistic.name;
  }
}

TEST_F(Initialise, ABufferTooSmallIsABug) {
  std::vector<float> values(100);
  EXPECT_THROW(initialise_parameters(graph_, 1, values), core::Error);
  EXPECT_THROW(initialise_statistics(graph_, values), core::Error);
}

}  // namespace
}  // namespace lockstep::graph
