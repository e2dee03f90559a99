// SPDX-License-Identifier: BSD-3-Clause
// Compares every all-reduce algorithm with a sequential loop over the ranks, bit by bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <tuple>

#include "all_reduce/registry.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "world.hpp"

namespace lockstep::comm {
namespace {

using core::DataType;

/// Returns whether `algorithm` sums in rank order. For the other algorithms the test values have so
/// few bits that their sum is exact in any order.
bool is_ordered(AllReduceAlgorithm algorithm) {
  return algorithm == AllReduceAlgorithm::direct ||
         algorithm == AllReduceAlgorithm::shared_memory ||
         algorithm == AllReduceAlgorithm::gather_scatter;
}

std::vector<float> values_of(int rank, std::size_t count, int round, AllReduceAlgorithm algorithm) {
  core::Random random(20, core::RandomStream::test, static_cast<std::uint64_t>(rank),
                      static_cast<std::uint32_t>(round));
  std::vector<float> values(count);
  for (float& value : values) {
    value = random.uniform() - 0.5F;
    if (!is_ordered(algorithm)) value = std::round(value * 65536) / 65536;
  }
  return values;
}

float as_sent(float value, DataType type) {
  return type == DataType::bfloat16 ? core::to_float(core::to_bfloat16(value)) : value;
}

/// Returns the sum that the documentation of `AllReduce` specifies: the contributions are rounded
/// to `type`, summed in float32 in rank order, and the sum is rounded to `type`. Sums within a host
/// (`shared_memory`, `hierarchical`) and on a single rank are not rounded.
std::vector<float> expected_sum(const Communicator& world, std::size_t count, int round,
                                DataType type, AllReduceAlgorithm algorithm) {
  const bool has_levels = algorithm == AllReduceAlgorithm::hierarchical ||
                          algorithm == AllReduceAlgorithm::shared_memory;
  const int group = has_levels ? world.local_size() : 1;  // ranks that sum without messages
  const bool communicates = world.size() > group;
  std::vector<float> sum(count, 0.0F);
  for (int first = 0; first < world.size(); first += group) {
    std::vector<float> part = values_of(first, count, round, algorithm);
    for (int rank = first + 1; rank < first + group; ++rank) {
      const auto other = values_of(rank, count, round, algorithm);
      for (std::size_t i = 0; i < count; ++i) part[i] += other[i];
    }
    for (std::size_t i = 0; i < count; ++i)
      sum[i] += communicates ? as_sent(part[i], type) : part[i];
  }
  for (float& value : sum) value = communicates ? as_sent(value, type) : value;
  return sum;
}

/// Fails the test at the first element whose bits differ.
void expect_same_bits(std::span<const float> got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(wanted[i]))
        << "element " << i << ": " << got[i] << " instead of " << wanted[i];
  }
}

/// Each test runs every all-reduce algorithm that is available to these ranks: `shared_memory` on
/// one host, `hierarchical` on several hosts with at least two ranks each, `direct` on at least two
/// ranks and, in float32, `ring` and `mpi`. A single rank has no algorithm.
class AllReduceTest : public testing::TestWithParam<DataType> {
 protected:
  template <class Body>
  void for_each_algorithm(Body body) {
    const core::Buffer probe = resources.allocate(64);
    for (const AllReduceAlgorithm algorithm :
         available_algorithms(resources, probe.as<float>(), GetParam())) {
      SCOPED_TRACE(algorithm.name());
      body(algorithm);
    }
  }
  std::vector<float> wanted(std::size_t count, int round, AllReduceAlgorithm algorithm) const {
    return expected_sum(*world, count, round, GetParam(), algorithm);
  }
  void fill(std::span<float> values, int round, AllReduceAlgorithm algorithm) const {
    std::ranges::copy(values_of(world->rank(), values.size(), round, algorithm), values.begin());
  }

  std::unique_ptr<Communicator> world = make_world();
  AllReduceResources resources{*world};
};

TEST_P(AllReduceTest, SumsAnySizeAgainAndAgain) {
  for_each_algorithm([&](AllReduceAlgorithm algorithm) {
    // An empty array, fewer values than ranks, odd sizes, several pieces with a short last piece.
    for (const std::size_t count : {0, 1, 2, 3, 7, 33, 1000, (1 << 18) + 1, (1 << 20) + 5}) {
      const core::Buffer buffer = resources.allocate(count * sizeof(float));
      const auto values = buffer.as<float>();
      const auto all_reduce = make_all_reduce(resources, values, GetParam(), algorithm);
      for (int round = 0; round < 2; ++round) {
        fill(values, round, algorithm);
        all_reduce->start();
        all_reduce->finish();
        EXPECT_TRUE(all_reduce->progress());
        SCOPED_TRACE(std::to_string(count) + " values, round " + std::to_string(round));
        expect_same_bits(values, wanted(count, round, algorithm));
      }
    }
  });
}

TEST_P(AllReduceTest, SeveralAreInProgressInDifferentOrdersOnTheRanks) {
  for_each_algorithm([&](AllReduceAlgorithm algorithm) {
    const std::vector<std::size_t> counts = {300'000, 5, 700'001, 64, 150'000};
    // The arrays are adjacent in one allocation, like the gradient buckets.
    const core::Buffer buffer = resources.allocate(2'000'000 * sizeof(float));
    std::vector<std::span<float>> arrays;
    std::vector<std::unique_ptr<AllReduce>> sums;
    std::size_t begin = 0;
    for (const std::size_t count : counts) {
      arrays.push_back(buffer.as<float>().subspan(begin, count));
      begin += count;
      sums.push_back(make_all_reduce(resources, arrays.back(), GetParam(), algorithm));
    }
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < counts.size(); ++i) {
        fill(arrays[i], round, algorithm);
        sums[i]->start();
        // In each round another rank is slow, and each rank calls `progress` a different number of
        // times.
        if (round == world->rank()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        for (int k = 0; k < world->rank(); ++k) sums[0]->progress();
      }
      // The order of `finish` differs from the order of `start`.
      for (std::size_t i = counts.size(); i > 0; --i) sums[i - 1]->finish();
      for (std::size_t i = 0; i < counts.size(); ++i) {
        SCOPED_TRACE("array " + std::to_string(i) + ", round " + std::to_string(round));
        expect_same_bits(arrays[i], wanted(counts[i], round, algorithm));
      }
    }
  });
}

TEST_P(AllReduceTest, PiecesMayOvertakeEachOther) {
  for_each_algorithm([&](AllReduceAlgorithm algorithm) {
    // There are many more pieces than may be in flight at a time, and the ranks test their messages
    // at random times, so that the pieces complete in different orders on different ranks.
    const core::Buffer buffer = resources.allocate(2'500'000 * sizeof(float));
    const auto values = buffer.as<float>();
    const auto all_reduce = make_all_reduce(resources, values, GetParam(), algorithm);
    core::Random random(6, core::RandomStream::test, static_cast<std::uint64_t>(world->rank()));
    for (int round = 0; round < 4; ++round) {
      // Integers below 64: their sums are exact, even in bfloat16.
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
  });
}

TEST_P(AllReduceTest, FastRankMayStartTheNextSumEarly) {
  for_each_algorithm([&](AllReduceAlgorithm algorithm) {
    const core::Buffer buffer = resources.allocate(100'000 * sizeof(float));
    const auto values = buffer.as<float>();
    const auto all_reduce = make_all_reduce(resources, values, GetParam(), algorithm);
    for (int round = 0; round < 10; ++round) {
      fill(values, round, algorithm);
      if (world->rank() == round % world->size())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      all_reduce->start();
      all_reduce->finish();
      expect_same_bits(values, wanted(values.size(), round, algorithm));
    }
  });
}

TEST_P(AllReduceTest, SecondStartIsAnError) {
  for_each_algorithm([&](AllReduceAlgorithm algorithm) {
    const core::Buffer buffer = resources.allocate(sizeof(float) << 20);
    const auto values = buffer.as<float>();
    std::ranges::fill(values, 1.0F);
    const auto all_reduce = make_all_reduce(resources, values, GetParam(), algorithm);
    all_reduce->start();
    EXPECT_THROW(all_reduce->start(), core::Error);
    all_reduce->finish();
    EXPECT_EQ(values.back(), static_cast<float>(world->size()));
  });
}

TEST_P(AllReduceTest, AlgorithmsFitTheRanks) {
  const core::Buffer shared = resources.allocate(64);
  std::vector<float> own(16);
  const auto has = [](const std::vector<AllReduceAlgorithm>& algorithms,
                      AllReduceAlgorithm algorithm) {
    return std::ranges::find(algorithms, algorithm) != algorithms.end();
  };
  const auto algorithms = available_algorithms(resources, shared.as<float>(), GetParam());
  const bool is_one_host = world->local_size() == world->size();
  EXPECT_EQ(has(algorithms, AllReduceAlgorithm::shared_memory), world->size() > 1 && is_one_host);
  EXPECT_EQ(has(algorithms, AllReduceAlgorithm::hierarchical),
            !is_one_host && world->local_size() > 1);
  EXPECT_EQ(has(algorithms, AllReduceAlgorithm::direct), world->size() > 1);
  EXPECT_EQ(has(algorithms, AllReduceAlgorithm::ring),
            world->size() > 1 && GetParam() == DataType::float32);
  EXPECT_FALSE(
      has(available_algorithms(resources, own, GetParam()), AllReduceAlgorithm::shared_memory));
}

INSTANTIATE_TEST_SUITE_P(Types, AllReduceTest,
                         testing::Values(DataType::float32, DataType::bfloat16),
                         [](const auto& instance) { return std::string(name(instance.param)); });

TEST(AllReduceMemory, OfMessagesIsBounded) {
  // The workspace holds the contributions of the other ranks to the pieces in flight. It is never
  // much larger than the array. Ranks on different hosts share no memory.
  const auto memory = [](std::size_t elements, int ranks, DataType type) {
    return all_reduce_memory_bytes(AllReduceAlgorithm::automatic, elements, ranks, 1, type);
  };
  EXPECT_EQ(memory(1 << 20, 1, DataType::float32), 0U);
  EXPECT_EQ(memory(0, 4, DataType::bfloat16), 0U);
  const std::size_t large = memory(std::size_t{1} << 28, 2, DataType::float32);
  EXPECT_GT(large, 0U);
  EXPECT_LE(large, std::size_t{16} << 20);
}

TEST(AllReduceMemory, ContainsThePartOfOtherRanksInSharedMemory) {
  constexpr std::size_t elements = 1 << 22, bytes = elements * sizeof(float);
  const auto memory = [](AllReduceAlgorithm algorithm, int local) {
    return all_reduce_memory_bytes(algorithm, elements, 4, local, DataType::float32);
  };
  EXPECT_EQ(memory(AllReduceAlgorithm::shared_memory, 4), bytes * 3 / 4);
  EXPECT_EQ(memory(AllReduceAlgorithm::hierarchical, 2),
            memory(AllReduceAlgorithm::direct, 2) + bytes / 2);
  // One algorithm is selected, so that their memory does not add up.
  for (const int local : {2, 4}) {
    std::size_t largest = 0;
    for (const AllReduceEntry& entry : all_reduce_registry()) {
      const bool is_available =
          obstacle_of(entry, {.is_one_host = local == 4, .is_shared = true}).empty();
      if (entry.is_timed && is_available)
        largest = std::max(largest, memory(entry.algorithm, local));
    }
    EXPECT_EQ(memory(AllReduceAlgorithm::automatic, local), largest) << local;
  }
}

}  // namespace
}  // namespace lockstep::comm
