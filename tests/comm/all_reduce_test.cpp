// The pieced all-reduce against a plain loop over the ranks, bit by bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "world.hpp"

namespace lockstep::comm {
namespace {

using core::DataType;

std::vector<float> values_of(int rank, std::size_t count, int round) {
  core::Random random(20, core::RandomStream::test, static_cast<std::uint64_t>(rank),
                      static_cast<std::uint32_t>(round));
  std::vector<float> values(count);
  for (float& value : values) value = random.uniform() - 0.5F;
  return values;
}

float as_sent(float value, DataType wire) {
  return wire == DataType::bfloat16 ? core::to_float(core::to_bfloat16(value)) : value;
}

/// What the documentation of AllReduce promises: rounded for travel, summed in float32 in rank
/// order, the sum rounded for travel.
std::vector<float> expected_sum(int ranks, std::size_t count, int round, DataType wire) {
  std::vector<float> sum = values_of(0, count, round);
  if (ranks == 1) return sum;
  for (float& value : sum) value = as_sent(value, wire);
  for (int rank = 1; rank < ranks; ++rank) {
    const auto part = values_of(rank, count, round);
    for (std::size_t i = 0; i < count; ++i) sum[i] += as_sent(part[i], wire);
  }
  for (float& value : sum) value = as_sent(value, wire);
  return sum;
}

/// Equal as bits; says where not.
void expect_same_bits(const std::vector<float>& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(wanted[i]))
        << "element " << i << ": " << got[i] << " instead of " << wanted[i];
  }
}

class AllReduceTest : public testing::TestWithParam<DataType> {
 protected:
  std::unique_ptr<Communicator> world = make_world();
};

TEST_P(AllReduceTest, SumsAnySizeAgainAndAgain) {
  // Nothing, fewer values than ranks, odd sizes, several pieces with a short last one.
  for (const std::size_t count : {0, 1, 2, 3, 7, 33, 1000, (1 << 18) + 1, (1 << 20) + 5}) {
    std::vector<float> values(count);
    const auto all_reduce = world->make_all_reduce(values, GetParam());
    for (int round = 0; round < 2; ++round) {
      std::ranges::copy(values_of(world->rank(), count, round), values.begin());
      all_reduce->start();
      all_reduce->finish();
      EXPECT_TRUE(all_reduce->progress());
      SCOPED_TRACE(std::to_string(count) + " values, round " + std::to_string(round));
      expect_same_bits(values, expected_sum(world->size(), count, round, GetParam()));
    }
  }
}

TEST_P(AllReduceTest, SeveralAreOnTheirWayAtOnceAndRanksDiffer) {
  const std::vector<std::size_t> counts = {300'000, 5, 700'001, 64, 150'000};
  std::vector<std::vector<float>> arrays;
  std::vector<std::unique_ptr<AllReduce>> sums;
  for (const std::size_t count : counts) arrays.emplace_back(count);
  for (auto& array : arrays) sums.push_back(world->make_all_reduce(array, GetParam()));

  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      std::ranges::copy(values_of(world->rank(), counts[i], round), arrays[i].begin());
      sums[i]->start();
      // Another rank is slow each time, and each progresses in a rhythm of its own.
      if (round == world->rank()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      for (int k = 0; k < world->rank(); ++k) sums[0]->progress();
    }
    // Not in the order of their starts.
    for (std::size_t i = counts.size(); i > 0; --i) sums[i - 1]->finish();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      SCOPED_TRACE("array " + std::to_string(i) + ", round " + std::to_string(round));
      expect_same_bits(arrays[i], expected_sum(world->size(), counts[i], round, GetParam()));
    }
  }
}

TEST_P(AllReduceTest, PiecesMayOvertakeEachOther) {
  // Many more pieces than travel at a time, and ranks that look at their messages at odd moments:
  // the pieces complete in different orders on different ranks.
  std::vector<float> values(2'500'000);
  const auto all_reduce = world->make_all_reduce(values, GetParam());
  core::Random random(6, core::RandomStream::test, static_cast<std::uint64_t>(world->rank()));
  for (int round = 0; round < 4; ++round) {
    // Integers below 64: their sums are exact, also in bfloat16.
    const auto value = [&](int rank, std::size_t i) {
      return static_cast<float>((i / 1000 * 7 + i + static_cast<std::size_t>(rank + round)) % 64);
    };
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(world->rank(), i);
    all_reduce->start();
    while (!all_reduce->progress()) {
      if (random.below(4) == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      float sum = 0;
      for (int rank = 0; rank < world->size(); ++rank) sum += value(rank, i);
      wrong += values[i] != sum ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0U) << "round " << round;
  }
}

TEST_P(AllReduceTest, FastRankMayStartTheNextSumEarly) {
  std::vector<float> values(100'000);
  const auto all_reduce = world->make_all_reduce(values, GetParam());
  for (int round = 0; round < 10; ++round) {
    std::ranges::copy(values_of(world->rank(), values.size(), round), values.begin());
    if (world->rank() == round % world->size()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    all_reduce->start();
    all_reduce->finish();
    expect_same_bits(values, expected_sum(world->size(), values.size(), round, GetParam()));
  }
}

TEST_P(AllReduceTest, IsNotStartedTwice) {
  if (world->size() == 1) return;  // there a sum is complete when it starts
  std::vector<float> values(1 << 20, 1.0F);
  const auto all_reduce = world->make_all_reduce(values, GetParam());
  all_reduce->start();
  EXPECT_THROW(all_reduce->start(), core::Error);
  all_reduce->finish();
  EXPECT_EQ(values.back(), static_cast<float>(world->size()));
}

INSTANTIATE_TEST_SUITE_P(Wires, AllReduceTest,
                         testing::Values(DataType::float32, DataType::bfloat16),
                         [](const auto& instance) { return std::string(name(instance.param)); });

TEST(AllReduceScratch, IsBounded) {
  // Contributions of the others for the pieces in flight; never more than the array and a little.
  EXPECT_EQ(all_reduce_scratch_bytes(1 << 20, 1, DataType::float32), 0U);
  EXPECT_EQ(all_reduce_scratch_bytes(0, 4, DataType::bfloat16), 0U);
  const std::size_t large = all_reduce_scratch_bytes(std::size_t{1} << 28, 2, DataType::float32);
  EXPECT_GT(large, 0U);
  EXPECT_LE(large, std::size_t{16} << 20);
}

}  // namespace
}  // namespace lockstep::comm
