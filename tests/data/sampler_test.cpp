// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/data/loader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "data/images.hpp"
#include "expect_error.hpp"

namespace lockstep::data {
namespace {

using Samples = std::vector<std::uint32_t>;

// Returns the samples of each global batch, collected from all ranks and sorted.
std::vector<Samples> global_batches(const DistributedSampler& sampler, int ranks,
                                    std::int64_t epoch) {
  std::vector<Samples> batches(sampler.steps_per_epoch());
  const std::size_t each = sampler.batch_per_rank();
  for (int rank = 0; rank < ranks; ++rank) {
    const Samples mine = sampler.epoch(epoch, rank);
    EXPECT_EQ(mine.size(), batches.size() * each);
    for (std::size_t i = 0; i < mine.size(); ++i) batches[i / each].push_back(mine[i]);
  }
  for (Samples& batch : batches) std::sort(batch.begin(), batch.end());
  return batches;
}

TEST(Sampler, SameGlobalBatchesUnderAnyRankCount) {
  for (const LastBatch last : {LastBatch::drop, LastBatch::pad}) {
    const auto alone = global_batches({1003, 24, 1, 9, last}, 1, 3);
    for (const int ranks : {2, 3, 4, 24}) {
      EXPECT_EQ(global_batches({1003, 24, ranks, 9, last}, ranks, 3), alone) << ranks;
    }
  }
}

TEST(Sampler, RanksAreStrided) {
  const Samples all = DistributedSampler(100, 20, 1, 1, LastBatch::drop).epoch(0, 0);
  const DistributedSampler four(100, 20, 4, 1, LastBatch::drop);
  for (int rank = 0; rank < 4; ++rank) {
    const Samples mine = four.epoch(0, rank);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      EXPECT_EQ(mine[i], all[i * 4 + static_cast<std::size_t>(rank)]);
    }
  }
}

TEST(Sampler, ShardsAreDisjointAndComplete) {
  const DistributedSampler sampler(960, 32, 4, 5, LastBatch::drop);
  std::multiset<std::uint32_t> seen;
  for (int rank = 0; rank < 4; ++rank) {
    const Samples mine = sampler.epoch(2, rank);
    seen.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(seen.size(), 960u);
  for (std::uint32_t sample = 0; sample < 960; ++sample) EXPECT_EQ(seen.count(sample), 1u);
}

TEST(Sampler, DropLeavesOutTheTail) {
  const DistributedSampler sampler(103, 20, 2, 5, LastBatch::drop);
  EXPECT_EQ(sampler.steps_per_epoch(), 5u);
  std::set<std::uint32_t> seen;
  for (const Samples& batch : global_batches(sampler, 2, 0))
    seen.insert(batch.begin(), batch.end());
  EXPECT_EQ(seen.size(), 100u) << "no sample twice";
}

TEST(Sampler, PadTakesFromTheStartOfTheEpoch) {
  const DistributedSampler sampler(103, 20, 1, 5, LastBatch::pad);
  EXPECT_EQ(sampler.steps_per_epoch(), 6u);
  const Samples order = sampler.epoch(4, 0);
  ASSERT_EQ(order.size(), 120u);
  EXPECT_EQ(std::set<std::uint32_t>(order.begin(), order.begin() + 103).size(), 103u);
  for (std::size_t i = 103; i < 120; ++i) EXPECT_EQ(order[i], order[i - 103]);
}

TEST(Sampler, PadDoesNotChangeWholeBatches) {
  EXPECT_EQ(DistributedSampler(100, 20, 2, 5, LastBatch::pad).steps_per_epoch(), 5u);
  EXPECT_EQ(DistributedSampler(20, 20, 2, 5, LastBatch::pad).steps_per_epoch(), 1u);
}

TEST(Sampler, ReshufflesWithEpochAndSeed) {
  const DistributedSampler sampler(500, 10, 1, 5, LastBatch::drop);
  EXPECT_EQ(sampler.epoch(0, 0), sampler.epoch(0, 0));
  EXPECT_NE(sampler.epoch(0, 0), sampler.epoch(1, 0));
  EXPECT_NE(sampler.epoch(0, 0), DistributedSampler(500, 10, 1, 6, LastBatch::drop).epoch(0, 0));
}

TEST(Sampler, EveryPlaceIsEquallyLikely) {
  // In 5,000 epochs, sample 0 of 5 is expected 1,000 times at each position, with a standard
  // deviation of 28.
  const DistributedSampler sampler(5, 5, 1, 1, LastBatch::drop);
  std::vector<int> places(5);
  for (std::int64_t epoch = 0; epoch < 5000; ++epoch) {
    const Samples order = sampler.epoch(epoch, 0);
    ++places[static_cast<std::size_t>(std::find(order.begin(), order.end(), 0u) - order.begin())];
  }
  for (const int count : places) EXPECT_NEAR(count, 1000, 6 * 28);
}

TEST(Sampler, RefusesBadBatches) {
  EXPECT_THROW(DistributedSampler(60, 64, 2, 1, LastBatch::pad), core::Error);
  EXPECT_THROW(DistributedSampler(60, 10, 4, 1, LastBatch::drop), core::Error);
  EXPECT_THROW(DistributedSampler(60, 0, 4, 1, LastBatch::drop), core::Error);
}

}  // namespace
}  // namespace lockstep::data
