#include "bucket_schedule.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "lockstep/core/error.hpp"

namespace lockstep::comm {
namespace {

constexpr std::size_t all = std::numeric_limits<std::size_t>::max();

TEST(BucketSchedule, LastBucketIsWhatRemains) {
  const BucketSchedule schedule(1000, 300 * 4 + 3);  // bytes beyond a multiple of 4 are ignored
  EXPECT_EQ(schedule.count(), 4U);
  EXPECT_EQ(schedule.bucket_bytes(4), (std::vector<std::size_t>{1200, 1200, 1200, 400}));
  EXPECT_EQ(schedule.bucket_bytes(2), (std::vector<std::size_t>{600, 600, 600, 200}));
  EXPECT_EQ(schedule.begin(3), 900U);
  EXPECT_EQ(schedule.end(2), 900U);
  EXPECT_EQ(schedule.end(3), 1000U);
  EXPECT_EQ(schedule.length(3), 100U);
}

TEST(BucketSchedule, BucketIsFullWithItsLastElement) {
  const BucketSchedule schedule(1000, 300 * 4);
  EXPECT_EQ(schedule.full(0), 0U);
  EXPECT_EQ(schedule.full(299), 0U);
  EXPECT_EQ(schedule.full(300), 1U);
  EXPECT_EQ(schedule.full(300), 1U) << "asking again changes nothing";
  EXPECT_EQ(schedule.full(999), 3U);
  EXPECT_EQ(schedule.full(1000), 4U);
  EXPECT_EQ(schedule.full(all), 4U);
}

TEST(BucketSchedule, BeyondAnElementIsTheBucketThatHoldsIt) {
  const BucketSchedule schedule(1000, 300 * 4);
  EXPECT_EQ(schedule.needed_beyond(0), 1U);
  EXPECT_EQ(schedule.needed_beyond(299), 1U);
  EXPECT_EQ(schedule.needed_beyond(300), 2U);
  EXPECT_EQ(schedule.needed_beyond(999), 4U);
  EXPECT_EQ(schedule.needed_beyond(1000), 4U);
  EXPECT_EQ(schedule.needed_beyond(all), 4U);
}

TEST(BucketSchedule, SumsGrowFromTheFront) {
  const BucketSchedule schedule(1000, 300 * 4);
  EXPECT_EQ(schedule.summed(0), 0U);
  EXPECT_EQ(schedule.summed(2), 600U);
  EXPECT_EQ(schedule.summed(4), 1000U);
}

TEST(BucketSchedule, WaitingBucketByBucketCoversAll) {
  for (const std::size_t elements : {1U, 7U, 8U, 9U, 1000U}) {
    for (const std::size_t length : {1U, 2U, 8U, 1001U}) {
      const BucketSchedule schedule(elements, length * 4);
      std::size_t done = 0, rounds = 0;
      while (done < elements) {
        const std::size_t more = schedule.summed(schedule.needed_beyond(done));
        ASSERT_GT(more, done);
        done = more;
        ++rounds;
      }
      EXPECT_EQ(done, elements);
      EXPECT_EQ(rounds, schedule.count());
      EXPECT_EQ(schedule.full(elements), schedule.count());
      EXPECT_EQ(schedule.end(schedule.count() - 1), elements);
    }
  }
}

TEST(BucketSchedule, BucketOfTheBuffersLengthOrLongerIsOne) {
  for (const std::size_t bytes : {std::size_t{400}, std::size_t{404}, all}) {
    const BucketSchedule schedule(100, bytes);
    EXPECT_EQ(schedule.bucket_bytes(4), std::vector<std::size_t>{400});
    EXPECT_EQ(schedule.full(99), 0U);
    EXPECT_EQ(schedule.full(100), 1U);
  }
}

TEST(BucketSchedule, EmptyBufferHasNoBuckets) {
  const BucketSchedule schedule(0, 400);
  EXPECT_EQ(schedule.count(), 0U);
  EXPECT_EQ(schedule.full(all), 0U);
  EXPECT_EQ(schedule.needed_beyond(0), 0U);
  EXPECT_EQ(schedule.summed(0), 0U);
}

TEST(BucketSchedule, WithoutBucketsAllIsThereAtOnce) {
  const auto schedule = BucketSchedule::without_buckets(1000);
  EXPECT_EQ(schedule.count(), 0U);
  EXPECT_TRUE(schedule.bucket_bytes(4).empty());
  EXPECT_EQ(schedule.full(1000), 0U);
  EXPECT_EQ(schedule.summed(schedule.needed_beyond(0)), 1000U);
}

TEST(BucketSchedule, RefusesBucketsOfLessThanOneValue) {
  EXPECT_THROW(BucketSchedule(10, 3), core::Error);
}

}  // namespace
}  // namespace lockstep::comm
