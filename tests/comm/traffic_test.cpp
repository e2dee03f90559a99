// SPDX-License-Identifier: BSD-3-Clause
// Compares the bytes that are counted for each all-reduce with those that the algorithms send by
// definition.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "all_reduce/gather_scatter.hpp"
#include "all_reduce/registry.hpp"
#include "lockstep/comm/communicator.hpp"
#include "world.hpp"

namespace lockstep::comm {
namespace {

using core::DataType;

class TrafficTest : public testing::Test {
 protected:
  void SetUp() override {
    if (world->size() == 1) GTEST_SKIP() << "one rank sends no messages";
  }

  /// Returns the traffic of this rank in the second of two all-reduces of the first `length`
  /// values.
  Traffic of(AllReduceAlgorithm algorithm, std::size_t length, DataType type = DataType::float32) {
    return of_second_run(
        *make_all_reduce(resources, buffer.as<float>().first(length), type, algorithm));
  }
  static Traffic of_second_run(AllReduce& all_reduce) {
    for (int run = 0; run < 2; ++run) {
      all_reduce.start();
      all_reduce.finish();
    }
    return all_reduce.traffic();
  }
  bool is_available(AllReduceAlgorithm algorithm) {
    return std::ranges::count(
               available_algorithms(resources, buffer.as<float>(), DataType::float32), algorithm) >
           0;
  }

  std::unique_ptr<Communicator> world = make_world();
  AllReduceResources resources{*world};
  double ranks = world->size();
  bool is_root = world->rank() == 0;
  // Eight pieces whose chunks have the same length on every rank.
  std::size_t count = 8 * 16384 * static_cast<std::size_t>(world->size());
  double bytes = 4.0 * static_cast<double>(count);
  core::Buffer buffer = resources.allocate(count * sizeof(float));
};

TEST_F(TrafficTest, RingAndDirectSendTwiceTheArrayLessOnePart) {
  const double each = 2 * (ranks - 1) / ranks * bytes;
  EXPECT_EQ(of(AllReduceAlgorithm::ring, count), (Traffic{each, each}));
  EXPECT_EQ(of(AllReduceAlgorithm::direct, count), (Traffic{each, each}));
}

TEST_F(TrafficTest, Bfloat16HalvesTheBytes) {
  const double each = (ranks - 1) / ranks * bytes;
  EXPECT_EQ(of(AllReduceAlgorithm::direct, count, DataType::bfloat16), (Traffic{each, each}));
}

TEST_F(TrafficTest, GatherScatterSendsEveryArrayThroughRankZero) {
  const double own = is_root ? (ranks - 1) * bytes : bytes;
  EXPECT_EQ(of(AllReduceAlgorithm::gather_scatter, count), (Traffic{own, own}));
  // A size that pieces do not divide: every value is sent once in each direction.
  const std::size_t odd = count - 12345;
  const double odd_bytes = 4.0 * static_cast<double>(odd) * (is_root ? ranks - 1 : 1);
  EXPECT_EQ(of(AllReduceAlgorithm::gather_scatter, odd), (Traffic{odd_bytes, odd_bytes}));
}

TEST_F(TrafficTest, HalvesOfGatherScatterSendInOneDirection) {
  const auto values = buffer.as<float>().first(count);
  const Traffic reduce =
      of_second_run(*make_root_all_reduce(resources.route(), values, RootStages::gather));
  const Traffic broadcast =
      of_second_run(*make_root_all_reduce(resources.route(), values, RootStages::scatter));
  const double at_root = (ranks - 1) * bytes;
  EXPECT_EQ(reduce, is_root ? (Traffic{0, at_root}) : (Traffic{bytes, 0}));
  EXPECT_EQ(broadcast, is_root ? (Traffic{at_root, 0}) : (Traffic{0, bytes}));
}

TEST_F(TrafficTest, RecursiveDoublingSendsByRole) {
  const AllReduceAlgorithm algorithm("recursive-doubling");
  const double short_bytes = 4096, halving = 2 * (ranks - 1) / ranks * bytes;
  switch (world->size()) {
    case 2:
    case 4: {
      EXPECT_EQ(of(algorithm, count), (Traffic{halving, halving}));
      const double doubling = std::log2(ranks) * short_bytes;
      EXPECT_EQ(of(algorithm, 1024), (Traffic{doubling, doubling}));
      break;
    }
    case 3: {  // rank 0 sends all to rank 1, which sums with rank 2 and sends the sums back
      const double own = (world->rank() == 1 ? 2 : 1) * bytes;
      EXPECT_EQ(of(algorithm, count), (Traffic{own, own}));
      break;
    }
    default: FAIL() << "no known answer for " << world->size() << " ranks";
  }
}

TEST_F(TrafficTest, SharedMemorySendsNoMessages) {
  if (!is_available(AllReduceAlgorithm::shared_memory)) GTEST_SKIP() << "several hosts";
  EXPECT_EQ(of(AllReduceAlgorithm::shared_memory, count), Traffic{});
}

TEST_F(TrafficTest, MessagesOfALibraryAreNotKnown) {
  const Traffic traffic = of(AllReduceAlgorithm::mpi, count);
  EXPECT_TRUE(std::isnan(traffic.sent_bytes) && std::isnan(traffic.received_bytes));
}

TEST_F(TrafficTest, BytesSentAreBytesReceived) {
  for (const AllReduceAlgorithm algorithm :
       available_algorithms(resources, buffer.as<float>(), DataType::float32)) {
    if (algorithm == AllReduceAlgorithm::mpi) continue;
    const Traffic traffic = of(algorithm, count - 777);
    std::array totals{traffic.sent_bytes, traffic.received_bytes};
    world->sum(std::span<double>(totals));
    EXPECT_EQ(totals[0], totals[1]) << algorithm.name();
  }
}

TEST_F(TrafficTest, ReduceSumsOnRankZeroAndBroadcastReturnsIt) {
  const auto values = buffer.as<float>().first(count - 12345);
  const auto reduce = make_root_all_reduce(resources.route(), values, RootStages::gather);
  const auto broadcast = make_root_all_reduce(resources.route(), values, RootStages::scatter);
  const auto own = [&](std::size_t i) {
    return static_cast<float>((i + static_cast<std::size_t>(world->rank())) % 100);
  };
  for (int run = 0; run < 2; ++run) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = own(i);
    reduce->start();
    reduce->finish();
    for (std::size_t i = 0; i < values.size(); ++i) {
      float sum = 0;
      for (std::size_t r = 0; r < static_cast<std::size_t>(world->size()); ++r)
        sum += static_cast<float>((i + r) % 100);
      ASSERT_EQ(values[i], is_root ? sum : own(i)) << "element " << i;
    }
    broadcast->start();
    broadcast->finish();
    std::vector<float> of_root(values.begin(), values.end());
    world->broadcast(std::as_writable_bytes(std::span<float>(of_root)));
    ASSERT_TRUE(std::ranges::equal(values, of_root));
    if (!is_root) {
      EXPECT_NE(values[50], own(50));
    }
  }
}

}  // namespace
}  // namespace lockstep::comm
