// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/timing/operation_clock.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::train {
namespace {

/// A timeline on which each timestamp is one second after the previous one.
class CountingTimeline final : public core::Timeline {
 public:
  using Timeline::record;
  void record(core::Timestamp timestamp, void*) override {
    if (timestamp == start) now_ = 0;
    times_[timestamp] = now_++;
  }
  double seconds(core::Timestamp timestamp) const override { return times_[timestamp]; }
  double start_seconds() const override { return 0; }

 private:
  void resize(std::size_t count) override { times_.resize(count); }
  std::vector<double> times_ = std::vector<double>(1);
  double now_ = 0;
};

TEST(OperationClock, RecordsNothingUntilItIsEnabled) {
  OperationClock clock;
  clock.begin();
  clock.ended(1, "forward");
  EXPECT_TRUE(clock.times().empty());
}

TEST(OperationClock, ReturnsConsecutiveIntervals) {
  CountingTimeline timeline;
  OperationClock clock;
  clock.attach(timeline, core::DeviceQueue());
  clock.set_enabled(true);
  timeline.record(core::Timeline::start);
  clock.begin();
  clock.ended(no_node, "upload");
  clock.begin_work();
  clock.ended(3, "forward");
  clock.ended(3, "backward");
  const auto times = clock.times();
  ASSERT_EQ(times.size(), 3u);
  EXPECT_EQ(times[0].key, OperationKey(no_node, "upload"));
  EXPECT_EQ(times[2].key, OperationKey(3, "backward"));
  for (std::size_t i = 0; i < times.size(); ++i) {
    EXPECT_EQ(times[i].begin, static_cast<double>(i));
    EXPECT_EQ(times[i].end, static_cast<double>(i + 1));
  }
}

// A GPU replays the captured work: the host then records only the part before it.
TEST(OperationClock, KeepsTheWorkThatIsReplayed) {
  CountingTimeline timeline;
  OperationClock clock;
  clock.attach(timeline, core::DeviceQueue());
  clock.set_enabled(true);
  for (int step = 0; step < 2; ++step) {
    timeline.record(core::Timeline::start);
    clock.begin();
    clock.ended(no_node, "upload");
    if (step > 0) continue;
    clock.begin_work();
    clock.ended(3, "forward");
  }
  ASSERT_EQ(clock.times().size(), 2u);
  EXPECT_EQ(clock.times()[1].key.first, 3);
}

}  // namespace
}  // namespace lockstep::train
