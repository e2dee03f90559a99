// SPDX-License-Identifier: BSD-3-Clause
#include "memory_planner.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::backend {
namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

bool is_alive(const Lifetime& lifetime, int time) {
  return (lifetime.first <= time && time <= lifetime.last) ||
         (lifetime.again && lifetime.again->first <= time && time <= lifetime.again->last);
}

bool are_alive_together(const Lifetime& a, const Lifetime& b) {
  for (int time = 0; time < 60; ++time)
    if (is_alive(a, time) && is_alive(b, time)) return true;
  return false;
}

/// Returns the largest total size of the tensors that are alive at the same time.
std::size_t largest_need(std::span<const Lifetime> lifetimes) {
  std::size_t most = 0;
  for (int time = 0; time < 60; ++time) {
    std::size_t sum = 0;
    for (const Lifetime& lifetime : lifetimes)
      if (is_alive(lifetime, time)) sum += aligned(lifetime.bytes);
    most = std::max(most, sum);
  }
  return most;
}

void expect_valid(std::span<const Lifetime> lifetimes, const MemoryLayout& layout) {
  ASSERT_EQ(layout.offsets.size(), lifetimes.size());
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    EXPECT_EQ(layout.offsets[i] % 64, 0u);
    EXPECT_LE(layout.offsets[i] + lifetimes[i].bytes, layout.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      const bool together = are_alive_together(lifetimes[i], lifetimes[j]);
      const bool apart = layout.offsets[i] + lifetimes[i].bytes <= layout.offsets[j] ||
                         layout.offsets[j] + lifetimes[j].bytes <= layout.offsets[i];
      EXPECT_TRUE(!together || apart) << "tensors " << i << " and " << j << " overlap";
    }
  }
}

TEST(MemoryPlanner, NoBlocksNeedNoMemory) { EXPECT_EQ(plan_memory({}).bytes, 0u); }

TEST(MemoryPlanner, RandomLifetimesNeverOverlapWhileAlive) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    core::Random random(seed, core::RandomStream::test);
    std::vector<Lifetime> lifetimes(1 + random.below(40));
    for (Lifetime& lifetime : lifetimes) {
      lifetime.bytes = random.below(5) == 0 ? 0 : random.below(10'000);
      lifetime.first = static_cast<int>(random.below(30));
      lifetime.last = lifetime.first + static_cast<int>(random.below(10));
      if (random.below(3) > 0) continue;
      const int again = lifetime.last + 1 + static_cast<int>(random.below(10));
      lifetime.again = {again, again + static_cast<int>(random.below(5))};
    }
    SCOPED_TRACE(seed);
    const MemoryLayout layout = plan_memory(lifetimes);
    expect_valid(lifetimes, layout);
    EXPECT_EQ(peak_bytes(lifetimes), largest_need(lifetimes));
    EXPECT_GE(layout.bytes, largest_need(lifetimes));
  }
}

TEST(MemoryPlanner, ChainOfEqualTensorsTakesTwo) {
  // Inference with a network without branches: operation i writes tensor i, and operation i + 1
  // reads it.
  std::vector<Lifetime> chain;
  for (int i = 0; i < 20; ++i) chain.push_back({1'000, i, i + 1});
  const MemoryLayout layout = plan_memory(chain);
  expect_valid(chain, layout);
  EXPECT_EQ(layout.bytes, 2 * aligned(1'000));
}

TEST(MemoryPlanner, ShrinkingChainTakesItsFirstTwo) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 10; ++i) chain.push_back({std::size_t{1} << (20 - i), i, i + 1});
  const MemoryLayout layout = plan_memory(chain);
  expect_valid(chain, layout);
  EXPECT_EQ(layout.bytes, largest_need(chain));
}

TEST(MemoryPlanner, NestedLifetimesNeedTheSumOfTheirSizes) {
  // Training: the backward pass reads the tensors in the reverse of the order in which the forward
  // pass writes them.
  std::vector<Lifetime> nested;
  for (int i = 0; i < 10; ++i) nested.push_back({static_cast<std::size_t>(100 + i), i, 20 - i});
  const MemoryLayout layout = plan_memory(nested);
  expect_valid(nested, layout);
  EXPECT_EQ(layout.bytes, 10 * aligned(100));
}

TEST(MemoryPlanner, MemoryBetweenTwoPeriodsIsUsedByOtherTensors) {
  std::vector<Lifetime> nested;
  for (int i = 0; i < 10; ++i) nested.push_back({64, i, i, Period{19 - i, 19 - i}});
  const MemoryLayout layout = plan_memory(nested);
  expect_valid(nested, layout);
  EXPECT_EQ(layout.bytes, 64u);
}

TEST(MemoryPlanner, SameMomentMeansAliveTogether) {
  const std::vector<Lifetime> touching{{64, 0, 3}, {64, 3, 5}, {64, 4, 6}};
  const MemoryLayout layout = plan_memory(touching);
  EXPECT_NE(layout.offsets[0], layout.offsets[1]);
  EXPECT_EQ(layout.offsets[0], layout.offsets[2]);
}

TEST(MemoryPlanner, LifetimeThatEndsBeforeItBeginsIsABug) {
  EXPECT_THROW(plan_memory(std::vector<Lifetime>{{64, 3, 2}}), core::Error);
  EXPECT_THROW(plan_memory(std::vector<Lifetime>{{64, 1, 2, Period{2, 4}}}), core::Error);
  EXPECT_THROW(plan_memory(std::vector<Lifetime>{{64, 1, 2, Period{4, 3}}}), core::Error);
}

}  // namespace
}  // namespace lockstep::backend
