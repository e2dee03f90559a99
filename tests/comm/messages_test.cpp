// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/messages.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "world.hpp"

namespace lockstep::comm {
namespace {

struct Plain {
  int rank = 0;
  double seconds = 0;
  bool operator==(const Plain&) const = default;
};

struct Sample {
  int rank = 0;
  std::string text;
  std::vector<double> numbers;
  std::vector<std::string> names;
  std::optional<std::string> remark;
  std::vector<std::pair<std::string, Plain>> entries;

  static auto fields(auto& self) {
    return std::tie(self.rank, self.text, self.numbers, self.names, self.remark, self.entries);
  }
  bool operator==(const Sample&) const = default;
};

/// Returns a value whose size differs between ranks; that of rank 0 is empty.
Sample sample_of(int rank) {
  Sample sample;
  sample.rank = rank;
  for (int i = 0; i < rank; ++i) {
    sample.text += "a\n\tb";
    sample.numbers.push_back(std::nextafter(0.1 * i, 1.0));
    sample.names.push_back(std::string(static_cast<std::size_t>(i), '\xff'));
    sample.entries.emplace_back("", Plain{i, -0.0});
  }
  if (rank % 2 == 1) sample.remark = sample.text;
  return sample;
}

class MessagesTest : public testing::Test {
 protected:
  template <class Make>
  auto all_of(Make make) const {
    std::vector<decltype(make(0))> values;
    for (int r = 0; r < world->size(); ++r) values.push_back(make(r));
    return values;
  }

  std::unique_ptr<Communicator> world = make_world();
  int rank = world->rank();
};

TEST_F(MessagesTest, AllRanksGetTheValueOfEachRank) {
  const auto plain_of = [](int r) { return Plain{r, 0.5 * r}; };
  EXPECT_EQ(all_gather(*world, plain_of(rank)), all_of(plain_of));
  EXPECT_EQ(all_gather(*world, sample_of(rank)), all_of(sample_of));
  const auto is_odd = [](int r) { return r % 2 == 1; };
  EXPECT_EQ(all_gather(*world, is_odd(rank)), all_of(is_odd));
}

TEST_F(MessagesTest, RankZeroAloneGathers) {
  const auto plain_of = [](int r) { return Plain{r, 0.5 * r}; };
  const auto plain = gather(*world, plain_of(rank));
  const auto samples = gather(*world, sample_of(rank));
  const std::vector<double> own{rank + 0.25, rank + 0.5};
  const auto numbers = gather_arrays(*world, std::span(own));
  if (rank != 0) {
    EXPECT_TRUE(plain.empty() && samples.empty() && numbers.empty());
    return;
  }
  EXPECT_EQ(plain, all_of(plain_of));
  EXPECT_EQ(samples, all_of(sample_of));
  for (int r = 0; r < world->size(); ++r) {
    EXPECT_EQ(numbers[2 * static_cast<std::size_t>(r)], r + 0.25);
    EXPECT_EQ(numbers[2 * static_cast<std::size_t>(r) + 1], r + 0.5);
  }
}

TEST_F(MessagesTest, BroadcastsFromRank0) {
  Sample sample = sample_of(rank);
  broadcast(*world, sample);
  EXPECT_EQ(sample, sample_of(0));
  Plain plain{rank, 1.5};
  broadcast(*world, plain);
  EXPECT_EQ(plain, (Plain{0, 1.5}));
}

TEST_F(MessagesTest, AllRanksGetTheLargestAndTheSmallestNumber) {
  const std::uint64_t large = (std::uint64_t{1} << 53) - 8;
  EXPECT_EQ(maximum(*world, large + static_cast<std::uint64_t>(rank)),
            large + static_cast<std::uint64_t>(world->size()) - 1);
  EXPECT_EQ(minimum(*world, 3 - rank), 4 - world->size());
  EXPECT_EQ(maximum(*world, rank > 0), world->size() > 1);
  EXPECT_FALSE(minimum(*world, rank > 0));
}

TEST_F(MessagesTest, NumbersWithoutDecimalNotationKeepTheirBits) {
  using Limits = std::numeric_limits<double>;
  const std::vector<double> own{Limits::quiet_NaN(), -Limits::infinity(), Limits::denorm_min(),
                                Limits::max(), -0.0};
  const std::vector<double> received = all_gather(*world, own).back();
  EXPECT_EQ(message_of(received), message_of(own));
}

TEST(EncodingTest, RejectsMessagesOfAnotherSize) {
  const std::string message = message_of(sample_of(3));
  EXPECT_EQ(value_of<Sample>(message), sample_of(3));
  EXPECT_THROW(value_of<Sample>(message + "x"), core::Error);
  EXPECT_THROW(value_of<Sample>(message.substr(1)), std::exception);
  EXPECT_THROW(value_of<Plain>(""), core::Error);
}

}  // namespace
}  // namespace lockstep::comm
