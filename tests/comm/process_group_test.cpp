// SPDX-License-Identifier: BSD-3-Clause
// Tests process groups, and messages between two ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

#include "all_reduce/registry.hpp"
#include "lockstep/core/error.hpp"
#include "world.hpp"

namespace lockstep::comm {
namespace {

using testing::HasSubstr;

class ProcessGroupTest : public testing::Test {
 protected:
  std::unique_ptr<Communicator> world = make_world();
  int rank = world->rank();
  int size = world->size();
};

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span<const T>(values));
}
template <class T>
std::span<std::byte> writable(std::vector<T>& values) {
  return std::as_writable_bytes(std::span<T>(values));
}

/// Returns the message of the error that `work` throws on this rank.
std::string failure(const std::function<void()>& work) {
  try {
    work();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::internal);
    return error.what();
  }
  return "no failure";
}

TEST_F(ProcessGroupTest, SplitOrdersRanksByKey) {
  const auto group = world->split(rank % 2, -rank);  // even and odd ranks, in reverse order
  ASSERT_NE(group, nullptr);
  std::vector<std::string> members;
  for (int r = size - 1; r >= 0; --r)
    if (r % 2 == rank % 2) members.push_back(std::to_string(r));
  EXPECT_EQ(group->size(), static_cast<int>(members.size()));
  EXPECT_EQ(members[static_cast<std::size_t>(group->rank())], std::to_string(rank));
  EXPECT_EQ(group->all_gather(std::to_string(rank)), members);
  EXPECT_LE(group->local_size(), group->size());

  std::vector<double> values = {1.0, static_cast<double>(rank)};
  group->sum(std::span<double>(values));
  double expected = 0;
  for (const std::string& member : members) expected += std::stod(member);
  EXPECT_EQ(values, (std::vector<double>{static_cast<double>(members.size()), expected}));
}

TEST_F(ProcessGroupTest, EqualKeysKeepTheOrderOfTheRanks) {
  const auto group = world->split(0, 7);
  EXPECT_EQ(group->rank(), rank);
  EXPECT_EQ(group->size(), size);
}

TEST_F(ProcessGroupTest, NegativeColourIsInNoGroup) {
  const auto group = world->split(rank == 0 ? -1 : 3, 0);
  EXPECT_EQ(group == nullptr, rank == 0);
  if (group) {
    EXPECT_EQ(group->size(), size - 1);
  }
}

TEST_F(ProcessGroupTest, GroupOfOneRankSendsNothing) {
  const auto group = world->split(rank, 0);
  EXPECT_EQ(group->size(), 1);
  EXPECT_EQ(group->rank(), 0);
  std::vector<float> values = {3.0F};
  group->sum(std::span<float>(values));
  EXPECT_EQ(values, std::vector<float>{3.0F});
}

TEST_F(ProcessGroupTest, GroupsAllReduceAtTheSameTimeAndAfterTheirParent) {
  const auto group = world->split(rank % 2, rank);
  world.reset();
  AllReduceResources resources{*group};
  const core::Buffer buffer = resources.allocate(50'000 * sizeof(float));
  const auto values = buffer.as<float>();
  for (const auto algorithm : available_algorithms(resources, values, core::DataType::float32)) {
    std::ranges::fill(values, static_cast<float>(rank % 2 + 1));
    const auto all_reduce = make_all_reduce(resources, values, core::DataType::float32, algorithm);
    all_reduce->start();
    all_reduce->finish();
    EXPECT_EQ(std::ranges::count(values, static_cast<float>((rank % 2 + 1) * group->size())),
              std::ssize(values))
        << algorithm.name();
  }
}

TEST_F(ProcessGroupTest, GroupsCanBeSplitAgain) {
  const auto half = world->split(rank / 2, rank);
  const auto single = half->split(half->rank(), 0);
  EXPECT_EQ(single->size(), 1);
}

TEST_F(ProcessGroupTest, MessagesArriveInOrder) {
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  if (size == 1) return;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{300'000}}) {
    const std::vector<int> first(count, rank), second(count + 1, rank + 100);
    std::vector<int> from_first(count), from_second(count + 1);
    const auto send = [&] {
      world->send(bytes_of(first), next);
      world->send(bytes_of(second), next);
    };
    const auto receive = [&] {
      world->receive(writable(from_first), previous);
      world->receive(writable(from_second), previous);
    };
    // Rank 0 receives first: a ring in which all ranks sent first could block.
    rank == 0 ? receive() : send();
    rank == 0 ? send() : receive();
    EXPECT_EQ(from_first, std::vector<int>(count, previous));
    EXPECT_EQ(from_second, std::vector<int>(count + 1, previous + 100));
  }
}

// All ranks send before they receive: `start` must not wait for the receiver.
TEST_F(ProcessGroupTest, RepeatedMessagesDoNotBlockAndArriveInOrder) {
  if (size == 1) return;
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  for (const std::size_t count : {std::size_t{1}, std::size_t{300'000}}) {
    std::vector<int> first(count), second(count), received(count);
    const auto send_first = world->make_send(bytes_of(first), next);
    const auto send_second = world->make_send(bytes_of(second), next);
    const auto receive = world->make_receive(writable(received), previous);
    for (int round = 0; round < 3; ++round) {
      send_first->wait();
      send_second->wait();
      std::ranges::fill(first, 100 * round + rank);
      std::ranges::fill(second, 100 * round + 50 + rank);
      send_first->start();
      send_second->start();
      for (const int offset : {0, 50}) {
        receive->start();
        receive->wait();
        EXPECT_EQ(received, std::vector<int>(count, 100 * round + offset + previous));
      }
    }
    send_first->wait();
    send_second->wait();
  }
}

TEST_F(ProcessGroupTest, RepeatedMessageOfAnotherSizeIsAnError) {
  if (rank > 1 || size == 1) return;
  std::vector<int> values(rank == 0 ? 1 : 2);
  if (rank == 0) {
    const auto message = world->make_send(bytes_of(values), 1);
    message->start();
    message->wait();
  } else {
    const auto message = world->make_receive(writable(values), 0);
    message->start();
    EXPECT_THAT(failure([&] { message->wait(); }),
                HasSubstr("the message of rank 0 has 4 bytes instead of 8"));
  }
}

TEST_F(ProcessGroupTest, MessageOfAnotherSizeIsAnError) {
  if (size == 1) return;
  if (rank == 0) {
    world->send(bytes_of(std::vector<int>(1)), 1);
    world->send(bytes_of(std::vector<int>(3)), 1);
  } else if (rank == 1) {
    std::vector<int> values(2);
    const auto receive = [&] { world->receive(writable(values), 0); };
    EXPECT_THAT(failure(receive), HasSubstr("the message of rank 0 has 4 bytes instead of 8"));
    EXPECT_THAT(failure(receive), HasSubstr("MPI"));  // too long
  }
  world->barrier();
}

TEST_F(ProcessGroupTest, EmptyPartsAreGathered) { EXPECT_NO_THROW(world->gather({}, {})); }

}  // namespace
}  // namespace lockstep::comm
