// SPDX-License-Identifier: BSD-3-Clause
// Tests memory that the ranks of a host share, also on hosts that have too little of it.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <vector>

#include "all_reduce/registry.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/communicator.hpp"
#include "world.hpp"

namespace lockstep::comm {
namespace {

/// Limits the size of the files that this process can create, including anonymous files (memfd).
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

class SharedMemoryTest : public testing::Test {
 protected:
  std::unique_ptr<Communicator> world = make_world();
  AllReduceResources resources{*world};
  const bool is_limited = world->rank() == world->size() - 1;
};

TEST_F(SharedMemoryTest, AllRanksTakeOrdinaryMemoryIfOneRankHasTooLittleToShare) {
  const FileSizeLimit limit(is_limited ? 4096 : RLIM_INFINITY);
  constexpr std::size_t count = 10'000;
  const core::Buffer buffer = resources.allocate(count * sizeof(float));
  const auto values = buffer.as<float>();
  ASSERT_EQ(values.size(), count);
  EXPECT_EQ(std::ranges::count(values, 0.0F), std::ptrdiff_t{count});
  const auto algorithms = available_algorithms(resources, values, core::DataType::float32);
  EXPECT_EQ(std::ranges::count(algorithms, AllReduceAlgorithm::shared_memory), 0);
  EXPECT_EQ(std::ranges::count(algorithms, AllReduceAlgorithm::hierarchical), 0);
  std::ranges::fill(values, 1.0F);
  for (const AllReduceAlgorithm algorithm : algorithms) {
    std::ranges::fill(values, 1.0F);
    const auto all_reduce = make_all_reduce(resources, values, core::DataType::float32, algorithm);
    all_reduce->start();
    all_reduce->finish();
    EXPECT_EQ(std::ranges::count(values, static_cast<float>(world->size())), std::ptrdiff_t{count});
  }
}

TEST_F(SharedMemoryTest, AllRanksFailTogetherIfOneRankHasNoMemoryForFlags) {
  const core::Buffer buffer = resources.allocate(4096);
  const auto values = buffer.as<float>();
  const auto algorithms = available_algorithms(resources, values, core::DataType::float32);
  if (std::ranges::count(algorithms, AllReduceAlgorithm::shared_memory) == 0)
    GTEST_SKIP() << "nothing is shared here";
  const FileSizeLimit limit(is_limited ? 4096 : RLIM_INFINITY);
  std::array prints{0.0F};
  try {
    static_cast<void>(make_all_reduce(resources, values, core::DataType::float32,
                                      AllReduceAlgorithm::shared_memory));
    ADD_FAILURE() << "no error";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::out_of_memory);
    prints[0] = error.is_reporting() ? 1.0F : 0.0F;
  }
  world->sum(std::span<float>(prints));
  EXPECT_EQ(prints[0], 1.0F);
}

TEST_F(SharedMemoryTest, OneRankMayReleaseItsMemoryBeforeTheOthers) {
  core::Buffer buffer = resources.allocate(1 << 20);
  const auto values = buffer.as<float>();
  const auto algorithms = available_algorithms(resources, values, core::DataType::float32);
  if (algorithms.empty()) GTEST_SKIP() << "one rank sums nothing";
  auto all_reduce = make_all_reduce(resources, values, core::DataType::float32, algorithms.front());
  std::ranges::fill(values, 1.0F);
  all_reduce->start();
  all_reduce->finish();
  const float sum = values.back();
  if (world->rank() == 0) {
    all_reduce.reset();
    buffer = {};
  }
  world->barrier();
  EXPECT_EQ(sum, static_cast<float>(world->size()));
  if (world->rank() != 0) {
    EXPECT_EQ(values.front(), sum);
  }
}

}  // namespace
}  // namespace lockstep::comm
