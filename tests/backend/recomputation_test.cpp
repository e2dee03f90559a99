// SPDX-License-Identifier: BSD-3-Clause
// Tests the choice of the outputs that the backward pass computes again (recomputation.hpp).

#include "recomputation.hpp"

#include <gmock/gmock.h>

namespace lockstep::backend {
namespace {

using testing::ElementsAre;

constexpr std::size_t map_bytes = 1024;

/// Steps of one network, each of which runs once forward and once backward.
class Network {
 public:
  explicit Network(int steps) : steps_(steps) {}

  /// Adds the next step; `reads`: its backward pass reads its inputs.
  int add(std::vector<int> inputs, bool can_recompute, bool reads, std::size_t bytes = map_bytes) {
    const int step = static_cast<int>(outputs_.size());
    for (const int input : inputs) {
      Lifetime& lifetime = outputs_[static_cast<std::size_t>(input)].lifetime;
      lifetime.last = step;
      if (reads) include(lifetime.again, {backward(step), backward(step)});
    }
    inputs_.push_back(std::move(inputs));
    outputs_.push_back({{.bytes = bytes, .first = step, .last = step}, {}, can_recompute});
    return step;
  }
  int backward(int step) const { return 2 * steps_ - 1 - step; }

  std::vector<StepOutput> choose(const std::vector<Lifetime>& others = {}) const {
    std::vector<StepOutput> outputs = outputs_;
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].inputs = inputs_[i];
    choose_recomputed(outputs, others);
    return outputs;
  }

 private:
  int steps_;
  std::vector<StepOutput> outputs_;
  std::vector<std::vector<int>> inputs_;
};

std::vector<int> recomputed(const std::vector<StepOutput>& outputs) {
  std::vector<int> steps;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].lifetime.again) steps.push_back(static_cast<int>(i));
  return steps;
}

/// Convolutions (even steps) and normalisations (odd steps), whose backward passes read their
/// inputs.
Network chain(int pairs) {
  Network network(2 * pairs + 1);
  int x = network.add({}, false, false);
  for (int i = 0; i < pairs; ++i) {
    x = network.add({x}, false, true);
    x = network.add({x}, true, true);
  }
  return network;
}

TEST(Recomputation, OutputsHaveASecondPeriodBeforeTheirFirstUse) {
  const Network network = chain(4);
  const std::vector<StepOutput> outputs = network.choose();
  EXPECT_THAT(recomputed(outputs), ElementsAre(2, 4, 6)) << "the last output is not read again";
  EXPECT_EQ(outputs[2].lifetime.last, 3);
  EXPECT_EQ(outputs[2].lifetime.again->first, network.backward(3));
  EXPECT_EQ(outputs[2].lifetime.again->last, network.backward(3));
  EXPECT_EQ(outputs[1].lifetime.last, network.backward(2)) << "the input remains alive";
}

TEST(Recomputation, OutputsThatDoNotLowerThePeakArePreserved) {
  const Network network = chain(4);
  const Lifetime elsewhere{.bytes = 100 * map_bytes, .first = 0, .last = 1};
  EXPECT_THAT(recomputed(network.choose({elsewhere})), ElementsAre());
}

TEST(Recomputation, OutputsThatTheBackwardPassDoesNotReadAreFreed) {
  Network network(3);
  network.add({}, true, false);
  network.add({0}, true, false);
  network.add({1}, true, false);
  const std::vector<StepOutput> outputs = network.choose();
  EXPECT_THAT(recomputed(outputs), ElementsAre());
  EXPECT_EQ(outputs[0].lifetime.last, 1);
}

/// Two residual blocks: steps 3 and 6 add a summand to what a convolution has computed. The summand
/// of step 3 is the output of step 1, which is recomputed or preserved.
Network blocks(bool can_recompute_first) {
  Network network(9);
  int x = network.add({}, false, false);
  x = network.add({x}, can_recompute_first, true);
  for (int block = 0; block < 2; ++block) {
    const int y = network.add({x}, false, true);
    x = network.add({y, x}, true, true);
  }
  for (int i = 0; i < 3; ++i) x = network.add({x}, false, true);
  return network;
}

TEST(Recomputation, SumsAreRecomputedFromSummandsThatArePreserved) {
  EXPECT_THAT(recomputed(blocks(false).choose()), ElementsAre(3));
  EXPECT_THAT(recomputed(blocks(true).choose()), ElementsAre(1, 5));
}

TEST(Recomputation, SummandsThatNoOtherBackwardPassReadsAreFreed) {
  Network network(6);
  network.add({}, false, false);
  const int y = network.add({0}, false, true);
  const int summand = network.add({0}, true, false);
  int x = network.add({y}, true, true);
  x = network.add({x, summand}, true, false);
  network.add({x}, false, true);
  const std::vector<StepOutput> outputs = network.choose();
  EXPECT_EQ(outputs[2].lifetime.last, 4);
  EXPECT_EQ(outputs[4].lifetime.last, network.backward(5)) << "is not recomputed";
}

}  // namespace
}  // namespace lockstep::backend
