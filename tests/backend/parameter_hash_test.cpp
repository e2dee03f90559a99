// SPDX-License-Identifier: BSD-3-Clause
#include "parameters.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/graph/operations.hpp"

namespace lockstep::backend {
namespace {

std::vector<float> ones(std::size_t count) { return std::vector<float>(count, 1.0F); }

TEST(ParameterHash, ChangesWithAnyBitOfAnyElement) {
  std::vector<float> values = ones(100);
  std::set<std::uint64_t> hashes{parameter_hash(values)};
  for (float& value : values) {
    const float before = value;
    for (int bit = 0; bit < 32; ++bit) {
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(before) ^ (1U << bit));
      hashes.insert(parameter_hash(values));
    }
    value = before;
  }
  EXPECT_EQ(hashes.size(), 1 + 100 * 32U);
}

TEST(ParameterHash, ChangesWithOrderSignOfZeroAndLength) {
  std::vector<float> values = ones(10);
  values[3] = 2;
  const std::uint64_t before = parameter_hash(values);
  std::swap(values[3], values[4]);
  EXPECT_NE(parameter_hash(values), before);
  EXPECT_NE(parameter_hash(std::vector{0.0F}), parameter_hash(std::vector{-0.0F}));
  EXPECT_NE(parameter_hash(std::vector{0.0F}), parameter_hash(std::vector{0.0F, 0.0F}));
}

// Equal changes of two elements must not cancel.
TEST(ParameterHash, SeesTheSameChangeInTwoElements) {
  std::vector<float> values = ones(1000);
  const std::uint64_t before = parameter_hash(values);
  for (std::size_t i = 1; i < values.size(); ++i) {
    std::vector<float> changed = values;
    changed[0] = 2;
    changed[i] = 0.5F;
    EXPECT_NE(parameter_hash(changed), before);
  }
}

// The run file stores the hash, so its definition must not change unnoticed. The
// generator's first output for seed 0 is published with its reference implementation.
TEST(ParameterHash, OfOneElementIsTheFirstOutputOfSplitMix64) {
  EXPECT_EQ(parameter_hash(std::vector{0.0F}), 0xE220A8397B1DCDAFU);
}

TEST(ParameterHash, OfAHostStateIsThatOfItsParameters) {
  const auto backend = make_backend(DeviceKind::reference, 1);
  graph::Graph graph("one");
  graph.softmax_cross_entropy(
      "loss", graph.linear("linear", graph.flatten("flatten", graph.input({1, 2, 2})), 3), {});
  graph.seal();
  const ModelState state = backend->make_state(graph);
  state.parameters.as<float>()[1] = 3;
  EXPECT_EQ(backend->parameter_hash(state), parameter_hash(state.parameters.as<float>()));
}

}  // namespace
}  // namespace lockstep::backend
