// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/communicator.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "all_reduce/registry.hpp"
#include "expect_error.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"
#include "world.hpp"

namespace lockstep::comm {
namespace {

class CommunicatorTest : public testing::Test {
 protected:
  std::unique_ptr<Communicator> world = make_world();
  int rank = world->rank();
  int size = world->size();
};

TEST_F(CommunicatorTest, ReturnsRankSizeAndHost) {
  int expected_rank = -1;
  int expected_size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &expected_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &expected_size);
  EXPECT_EQ(rank, expected_rank);
  EXPECT_EQ(size, expected_size);
  EXPECT_GE(world->local_rank(), 0);
  EXPECT_LT(world->local_rank(), world->local_size());
  EXPECT_LE(world->local_size(), size);
  EXPECT_NE(world->library_version().find("MPI"), std::string::npos) << world->library_version();
}

TEST_F(CommunicatorTest, LocalRanksOfAHostAreDistinct) {
  const auto places =
      world->all_gather(std::to_string(world->host()) + "/" + std::to_string(world->local_rank()));
  EXPECT_EQ(std::set<std::string>(places.begin(), places.end()).size(),
            static_cast<std::size_t>(size));
}

TEST_F(CommunicatorTest, HostsAreNumberedInTheOrderOfTheirLowestRanks) {
  const auto hosts = world->all_gather(std::to_string(world->host()));
  int next = 0;
  for (const std::string& host : hosts) {
    EXPECT_LE(std::stoi(host), next);
    next = std::max(next, std::stoi(host) + 1);
  }
  EXPECT_EQ(std::ranges::count(hosts, hosts[static_cast<std::size_t>(rank)]), world->local_size());
}

TEST_F(CommunicatorTest, Sums) {
  std::vector<double> doubles = {1.0, static_cast<double>(rank), -0.5};
  world->sum(std::span<double>(doubles));
  EXPECT_EQ(doubles, (std::vector<double>{1.0 * size, size * (size - 1) / 2.0, -0.5 * size}));

  std::vector<float> floats = {2.0F, static_cast<float>(rank)};
  world->sum(std::span<float>(floats));
  EXPECT_EQ(floats, (std::vector<float>{2.0F * static_cast<float>(size),
                                        static_cast<float>(size * (size - 1)) / 2.0F}));
  world->sum(std::span<float>());
}

TEST_F(CommunicatorTest, Maximum) {
  std::vector<double> values = {static_cast<double>(rank), -static_cast<double>(rank), 3.5};
  world->maximum(values);
  EXPECT_EQ(values, (std::vector<double>{size - 1.0, 0.0, 3.5}));
}

TEST_F(CommunicatorTest, BroadcastsFromRank0) {
  std::vector<int> values(1000, rank);
  world->broadcast(std::as_writable_bytes(std::span<int>(values)));
  EXPECT_EQ(values, std::vector<int>(1000, 0));
}

TEST_F(CommunicatorTest, AllGathersTextsOfDifferentLengths) {
  const auto text_of = [](int r) { return std::string(static_cast<std::size_t>(r) * 3, 'a'); };
  const auto texts = world->all_gather(text_of(rank));  // the text of rank 0 is empty
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) EXPECT_EQ(texts[static_cast<std::size_t>(r)], text_of(r));
}

TEST_F(CommunicatorTest, StatisticsAllReduceAddsOverRanks) {
  const auto transport = make_gradient_transport(*world, core::DeviceQueue{}, {});
  core::StatisticsAllReduce& replicas = transport->statistics_all_reduce();
  EXPECT_EQ(replicas.replicas(), size);
  std::vector<float> values = {1.0F, 0.5F};
  replicas.sum(values);
  EXPECT_EQ(values,
            (std::vector<float>{static_cast<float>(size), 0.5F * static_cast<float>(size)}));
}

TEST_F(CommunicatorTest, RefusesAnUnsupportedCommunicationType) {
  std::vector<float> values(8);
  AllReduceResources resources{*world};
  expect_error(core::ExitStatus::usage, {}, [&] {
    make_all_reduce(resources, values, core::DataType::float16, AllReduceAlgorithm::direct);
  });
}

TEST(SelfCommunicator, HasOneRank) {
  const auto self = make_self_communicator();
  EXPECT_EQ(self->rank(), 0);
  EXPECT_EQ(self->size(), 1);
  EXPECT_EQ(self->local_size(), 1);
  std::vector<float> values = {1.0F, 2.0F};
  self->sum(std::span<float>(values));
  EXPECT_EQ(values, (std::vector<float>{1.0F, 2.0F}));
  EXPECT_EQ(self->all_gather("x"), std::vector<std::string>{"x"});
  EXPECT_EQ(gather(*self, 3.0), std::vector<double>{3.0});
  AllReduceResources resources{*self};
  EXPECT_TRUE(available_algorithms(resources, values, core::DataType::bfloat16).empty());
}

}  // namespace
}  // namespace lockstep::comm
