// SPDX-License-Identifier: BSD-3-Clause
#include "timing/step_clock.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/core/error.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::train {
namespace {

TEST(StepClock, ReservesTimestampsForEveryBucket) {
  for (const std::size_t buckets : {0, 1, 2, 600, 3000}) {
    core::HostTimeline timeline;
    StepClock clock(timeline, nullptr, buckets);
    clock.begin(1);
    clock.end(record::Phase::data_wait);
    clock.end(record::Phase::upload);
    clock.begin_work();
    clock.end(record::Phase::forward);
    clock.end(record::Phase::backward);
    for (std::size_t bucket = 0; bucket < std::max<std::size_t>(buckets, 1); ++bucket) {
      clock.end(record::Phase::exposed_communication);
      clock.end(record::Phase::update);
    }
    clock.end(record::Phase::exposed_communication);  // the parameters, with a parameter server
    clock.end(record::Phase::update);
    clock.end(record::Phase::exposed_communication);
    EXPECT_THROW(clock.end(record::Phase::update), core::Error) << buckets;
  }
}

}  // namespace
}  // namespace lockstep::train
