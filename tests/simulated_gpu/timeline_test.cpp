// SPDX-License-Identifier: BSD-3-Clause
#include "backend/cuda/timeline.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "simulated_gpu/capture.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::backend::cuda {
namespace {

class Timeline : public testing::Test {
 protected:
  void wait() { core::check_cuda(cudaStreamSynchronize(stream_.get()), "waiting"); }

  core::Stream stream_ = core::make_stream();
  CudaTimeline timeline_{stream_.get()};
  core::TimestampRange mine_ = timeline_.reserve(3);
};

// The events of an earlier step must not be read: the result would be a negative duration.
TEST_F(Timeline, TimestampThatTheLastStepDidNotRecordIsNotANumber) {
  timeline_.create_events();
  for (const std::size_t recorded : {3u, 1u}) {
    timeline_.record(core::Timeline::start);
    for (std::size_t i = 0; i < recorded; ++i) timeline_.record(mine_[i]);
    wait();
    timeline_.read(0);
    for (std::size_t i = 0; i < mine_.size(); ++i)
      EXPECT_EQ(std::isnan(timeline_.seconds(mine_[i])), i >= recorded) << i;
  }
}

TEST_F(Timeline, TimestampsOfAGraphAreRecordedInEveryStep) {
  using Recording = CudaTimeline::Recording;
  for (std::size_t i = 0; i < mine_.size(); ++i) timeline_.record(mine_[i]);
  timeline_.set_recording(Recording::captured);
  const simulated_gpu::CapturedGraph graph(stream_, [&] { timeline_.record(mine_[0]); });
  timeline_.set_recording(Recording::immediate);
  for (int step = 0; step < 2; ++step) {
    const std::chrono::milliseconds delay(step);
    timeline_.record(core::Timeline::start);
    wait();
    std::this_thread::sleep_for(delay);
    timeline_.record(mine_[1]);
    graph.launch(stream_);
    wait();
    timeline_.read(0);
    EXPECT_GE(timeline_.seconds(mine_[0]), timeline_.seconds(mine_[1]));
    EXPECT_GE(timeline_.seconds(mine_[0]), std::chrono::duration<double>(delay).count());
    EXPECT_TRUE(std::isnan(timeline_.seconds(mine_[2]))) << "recorded before the first step only";
  }
}

// The simulated GPU reads the clock of the host when it executes an event.
TEST_F(Timeline, StartOfAStepIsOnTheClockOfTheHost) {
  timeline_.create_events();
  timeline_.record(core::Timeline::start);
  wait();
  timeline_.read(0);
  EXPECT_TRUE(std::isnan(timeline_.start_seconds())) << "the clock is not set";
  double error = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    const core::ClockCorrection clock = timeline_.set_clock();
    EXPECT_LE(std::abs(clock.drift), error + clock.error);
    if (epoch == 0) {
      EXPECT_EQ(clock.drift, 0);
    }
    EXPECT_GE(clock.error, 0.5e-6);
    error = clock.error;
    for (int step = 0; step < 3; ++step) {
      const double before = core::host_seconds();
      timeline_.record(core::Timeline::start);
      wait();
      const double after = core::host_seconds();
      timeline_.read(0);
      EXPECT_GE(timeline_.start_seconds(), before - error);
      EXPECT_LE(timeline_.start_seconds(), after + error);
    }
  }
}

// If one step is in flight, the host records the end of a step after it has waited for its work.
TEST_F(Timeline, FinishedStepHasTheTimestampsThatWereRecordedAfterItsWork) {
  timeline_.create_events();
  timeline_.record(core::Timeline::start);
  wait();
  timeline_.read(0);
  timeline_.record(mine_[0]);
  timeline_.finish_step();
  EXPECT_GE(timeline_.seconds(mine_[0]), 0);
  EXPECT_TRUE(std::isnan(timeline_.seconds(mine_[1])));
}

TEST_F(Timeline, EventsAreCreatedBeforeTheFirstStep) {
  timeline_.create_events();
  const auto before = simulated_gpu::count_objects();
  timeline_.record(core::Timeline::start);
  timeline_.record(mine_[2]);
  EXPECT_EQ(simulated_gpu::count_objects(), before);
  wait();
}

}  // namespace
}  // namespace lockstep::backend::cuda
