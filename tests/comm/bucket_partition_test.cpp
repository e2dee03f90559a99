// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <limits>

#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {
namespace {

constexpr std::size_t all = std::numeric_limits<std::size_t>::max();

TEST(BucketPartition, LastBucketIsWhatRemains) {
  const BucketPartition partition(1000, 300 * 4 + 3);  // bytes beyond a multiple of 4 are ignored
  EXPECT_EQ(partition.count(), 4U);
  EXPECT_EQ(partition.bucket_sizes(4), (std::vector<std::size_t>{1200, 1200, 1200, 400}));
  EXPECT_EQ(partition.bucket_sizes(2), (std::vector<std::size_t>{600, 600, 600, 200}));
  EXPECT_EQ(partition.begin(3), 900U);
  EXPECT_EQ(partition.end(2), 900U);
  EXPECT_EQ(partition.end(3), 1000U);
  EXPECT_EQ(partition.length(3), 100U);
}

TEST(BucketPartition, BucketIsFullWithItsLastElement) {
  const BucketPartition partition(1000, 300 * 4);
  EXPECT_EQ(partition.full(0), 0U);
  EXPECT_EQ(partition.full(299), 0U);
  EXPECT_EQ(partition.full(300), 1U);
  EXPECT_EQ(partition.full(300), 1U) << "asking again changes nothing";
  EXPECT_EQ(partition.full(999), 3U);
  EXPECT_EQ(partition.full(1000), 4U);
  EXPECT_EQ(partition.full(all), 4U);
}

TEST(BucketPartition, NeededBucketContainsTheNextElement) {
  const BucketPartition partition(1000, 300 * 4);
  EXPECT_EQ(partition.needed_beyond(0), 1U);
  EXPECT_EQ(partition.needed_beyond(299), 1U);
  EXPECT_EQ(partition.needed_beyond(300), 2U);
  EXPECT_EQ(partition.needed_beyond(999), 4U);
  EXPECT_EQ(partition.needed_beyond(1000), 4U);
  EXPECT_EQ(partition.needed_beyond(all), 4U);
}

TEST(BucketPartition, SumsGrowFromTheFront) {
  const BucketPartition partition(1000, 300 * 4);
  EXPECT_EQ(partition.prefix(0), 0U);
  EXPECT_EQ(partition.prefix(2), 600U);
  EXPECT_EQ(partition.prefix(4), 1000U);
}

TEST(BucketPartition, WaitingBucketByBucketCoversAll) {
  for (const std::size_t elements : {1U, 7U, 8U, 9U, 1000U}) {
    for (const std::size_t length : {1U, 2U, 8U, 1001U}) {
      const BucketPartition partition(elements, length * 4);
      std::size_t done = 0, rounds = 0;
      while (done < elements) {
        const std::size_t more = partition.prefix(partition.needed_beyond(done));
        ASSERT_GT(more, done);
        done = more;
        ++rounds;
      }
      EXPECT_EQ(done, elements);
      EXPECT_EQ(rounds, partition.count());
      EXPECT_EQ(partition.full(elements), partition.count());
      EXPECT_EQ(partition.end(partition.count() - 1), elements);
    }
  }
}

TEST(BucketPartition, BucketOfTheBuffersLengthOrLongerIsOne) {
  for (const std::size_t bytes : {std::size_t{400}, std::size_t{404}, all}) {
    const BucketPartition partition(100, bytes);
    EXPECT_EQ(partition.bucket_sizes(4), std::vector<std::size_t>{400});
    EXPECT_EQ(partition.full(99), 0U);
    EXPECT_EQ(partition.full(100), 1U);
  }
}

TEST(BucketPartition, EmptyBufferHasNoBuckets) {
  const BucketPartition partition(0, 400);
  EXPECT_EQ(partition.count(), 0U);
  EXPECT_EQ(partition.full(all), 0U);
  EXPECT_EQ(partition.needed_beyond(0), 0U);
  EXPECT_EQ(partition.prefix(0), 0U);
}

TEST(BucketPartition, WithoutBucketsTheWholeBufferIsReduced) {
  const auto partition = BucketPartition::without_buckets(1000);
  EXPECT_EQ(partition.count(), 0U);
  EXPECT_TRUE(partition.bucket_sizes(4).empty());
  EXPECT_EQ(partition.full(1000), 0U);
  EXPECT_EQ(partition.prefix(partition.needed_beyond(0)), 1000U);
}

TEST(BucketPartition, RefusesBucketsOfLessThanOneValue) {
  EXPECT_THROW(BucketPartition(10, 3), core::Error);
}

}  // namespace
}  // namespace lockstep::comm
