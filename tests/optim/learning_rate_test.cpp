// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/optim/learning_rate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace lockstep::optim {
namespace {

// The formulas consist of a few float64 operations.
constexpr double tolerance = 1e-12;

TEST(LearningRate, ConstantStays) {
  const LearningRateSchedule schedule{.peak = 0.3, .total_steps = 10};
  for (std::int64_t step = 0; step < 12; ++step) EXPECT_EQ(schedule.at(step), 0.3);
}

TEST(LearningRate, StepFallsAtHalfAndThreeQuarters) {
  const LearningRateSchedule schedule{
      .kind = ScheduleKind::step, .peak = 0.1, .total_steps = 110, .warmup_steps = 10};
  EXPECT_NEAR(schedule.at(10), 0.1, tolerance);
  EXPECT_NEAR(schedule.at(59), 0.1, tolerance);
  EXPECT_NEAR(schedule.at(60), 0.01, tolerance);
  EXPECT_NEAR(schedule.at(84), 0.01, tolerance);
  EXPECT_NEAR(schedule.at(85), 0.001, tolerance);
  EXPECT_NEAR(schedule.at(109), 0.001, tolerance);
}

TEST(LearningRate, CosineGoesFromPeakToZero) {
  const LearningRateSchedule schedule{
      .kind = ScheduleKind::cosine, .peak = 0.2, .total_steps = 200};
  EXPECT_NEAR(schedule.at(0), 0.2, tolerance);
  EXPECT_NEAR(schedule.at(50), 0.1 * (1 + std::sqrt(0.5)), tolerance);
  EXPECT_NEAR(schedule.at(100), 0.1, tolerance);
  EXPECT_NEAR(schedule.at(199), 0.1 * (1 + std::cos(std::numbers::pi * 199 / 200)), tolerance);
  EXPECT_GT(schedule.at(199), 0);
  EXPECT_NEAR(schedule.at(200), 0, tolerance);
  EXPECT_NEAR(schedule.at(1000), 0, tolerance) << "past the end it stays";
  for (std::int64_t step = 1; step < 200; ++step) {
    EXPECT_LT(schedule.at(step), schedule.at(step - 1)) << step;
  }
}

TEST(LearningRate, WarmUpIsLinearAndMeetsThePeak) {
  for (const ScheduleKind kind :
       {ScheduleKind::constant, ScheduleKind::step, ScheduleKind::cosine, ScheduleKind::onecycle}) {
    const LearningRateSchedule schedule{
        .kind = kind, .peak = 0.8, .total_steps = 100, .warmup_steps = 8};
    for (std::int64_t step = 0; step < 8; ++step) {
      EXPECT_NEAR(schedule.at(step), 0.1 * static_cast<double>(step + 1), tolerance) << step;
    }
    EXPECT_NEAR(schedule.at(8), 0.8, tolerance) << core::name(kind);
  }
}

TEST(LearningRate, WarmUpMayLastTheWholeRun) {
  const LearningRateSchedule schedule{
      .kind = ScheduleKind::cosine, .peak = 0.4, .total_steps = 4, .warmup_steps = 4};
  EXPECT_NEAR(schedule.at(0), 0.1, tolerance);
  EXPECT_NEAR(schedule.at(3), 0.4, tolerance);
}

TEST(LearningRate, OneCycleRisesThenFalls) {
  const LearningRateSchedule schedule{
      .kind = ScheduleKind::onecycle, .peak = 0.5, .total_steps = 1000};
  EXPECT_NEAR(schedule.at(0), 0.02, tolerance);
  EXPECT_NEAR(schedule.at(150), 0.26, tolerance) << "half-way up";
  EXPECT_NEAR(schedule.at(300), 0.5, tolerance);
  EXPECT_NEAR(schedule.at(650), (0.5 + 0.5e-4) / 2, tolerance) << "half-way down";
  EXPECT_NEAR(schedule.at(1000), 0.5e-4, tolerance);
  for (std::int64_t step = 1; step < 1000; ++step) {
    if (step <= 300) {
      EXPECT_GT(schedule.at(step), schedule.at(step - 1)) << step;
    } else {
      EXPECT_LT(schedule.at(step), schedule.at(step - 1)) << step;
    }
    // The schedule is continuous. The linear rise is its steepest part: 0.96 peak / 300 = 0.0032
    // peak per step.
    EXPECT_LT(std::abs(schedule.at(step) - schedule.at(step - 1)), 0.5 * 0.0035) << step;
  }
}

TEST(LearningRate, ScalesWithTheBatch) {
  EXPECT_NEAR((Options{.learning_rate = 0.1, .scaling = Scaling::none}.peak(1024)), 0.1, tolerance);
  EXPECT_NEAR((Options{.learning_rate = 0.1, .scaling = Scaling::linear}.peak(1024)), 0.8,
              tolerance);
  EXPECT_NEAR((Options{.learning_rate = 0.1, .scaling = Scaling::linear}.peak(32)), 0.025,
              tolerance);
  EXPECT_NEAR((Options{.learning_rate = 0.1, .scaling = Scaling::sqrt}.peak(512)), 0.2, tolerance);
}

TEST(LearningRate, HasTheNamesOfTheOptions) {
  EXPECT_EQ(core::name(ScheduleKind::constant), "constant");
  EXPECT_EQ(core::name(ScheduleKind::step), "step");
  EXPECT_EQ(core::name(ScheduleKind::cosine), "cosine");
  EXPECT_EQ(core::name(ScheduleKind::onecycle), "onecycle");
  EXPECT_EQ(core::name(Scaling::none), "none");
  EXPECT_EQ(core::name(Scaling::linear), "linear");
  EXPECT_EQ(core::name(Scaling::sqrt), "sqrt");
}

}  // namespace
}  // namespace lockstep::optim
