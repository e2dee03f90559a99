// SPDX-License-Identifier: BSD-3-Clause
// Runs every all-reduce algorithm on numbers of ranks for which the other tests are too slow.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "all_reduce/registry.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/random.hpp"
#include "world.hpp"

namespace lockstep::comm {
namespace {

class AllReduceRanksTest : public testing::TestWithParam<std::size_t> {
 protected:
  /// Sums `values` with every algorithm that is available. `fill` sets the values before each sum,
  /// `check` is called after it.
  template <class Fill, class Check>
  void run_all(Fill fill, Check check) {
    for (const auto type : {core::DataType::float32, core::DataType::bfloat16}) {
      const auto available = available_algorithms(resources, values, type);
      if (type == core::DataType::float32) require_algorithms_of_messages(available);
      for (const AllReduceAlgorithm algorithm : available) {
        SCOPED_TRACE(algorithm.name());
        const auto all_reduce = make_all_reduce(resources, values, type, algorithm);
        for (int round = 0; round < 2; ++round) {
          fill();
          all_reduce->start();
          all_reduce->finish();
          check();
        }
      }
    }
  }

  /// The algorithms that send messages are available on every host.
  void require_algorithms_of_messages(const std::vector<AllReduceAlgorithm>& available) const {
    if (world->size() == 1) return;
    for (const auto& named : named_values(AllReduceAlgorithm{})) {
      const AllReduceAlgorithm algorithm = named.value;
      if (algorithm == AllReduceAlgorithm::automatic) continue;
      if (find_all_reduce(algorithm).shares_memory) continue;
      EXPECT_NE(std::ranges::find(available, algorithm), available.end()) << algorithm.name();
    }
  }

  std::unique_ptr<Communicator> world = make_world();
  AllReduceResources resources{*world};
  core::Buffer buffer = resources.allocate(GetParam() * sizeof(float));
  std::span<float> values = buffer.as<float>().first(GetParam());
};

TEST_P(AllReduceRanksTest, SumsAreExactForSmallIntegers) {
  const auto rank = static_cast<std::size_t>(world->rank());
  const auto size = static_cast<std::size_t>(world->size());
  const auto fill = [&] {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13 + rank);
  };
  run_all(fill, [&] {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      wrong += values[i] != static_cast<float>(size * (i % 13) + size * (size - 1) / 2) ? 1 : 0;
    EXPECT_EQ(wrong, 0U);
  });
}

TEST_P(AllReduceRanksTest, EveryRankHoldsTheSameBits) {
  core::Random random(9, core::RandomStream::test, static_cast<std::uint64_t>(world->rank()));
  const auto fill = [&] {
    for (float& value : values) value = random.normal();
  };
  run_all(fill, [&] {
    std::vector<float> of_root(values.begin(), values.end());
    world->broadcast(std::as_writable_bytes(std::span<float>(of_root)));
    EXPECT_TRUE(std::ranges::equal(of_root, values));
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, AllReduceRanksTest,
                         testing::Values(1, 5, 1000, 4096, 4097, 100'003, 400'000),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep::comm
