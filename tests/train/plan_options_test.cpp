// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/plan_options.hpp"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

using backend::GradientReduction;

Config config(int ranks, comm::ReducerKind reducer) {
  Config config;
  config.global_batch = 16;
  config.reducer.kind = reducer;
  return resolve_device(resolve(config, ranks));
}

TEST(PlanOptions, GradientsOfSeveralRanksAreReducedInBuckets) {
  for (const auto reducer : {comm::ReducerKind::overlap, comm::ReducerKind::allreduce}) {
    const auto options = training_options(config(2, reducer), {}, nullptr, 0, 2);
    EXPECT_EQ(options.gradient_reduction, GradientReduction::over_replicas);
    EXPECT_GT(options.gradient_portion, 0u);
  }
}

TEST(PlanOptions, GradientsOfOneRankAndOfIndependentReplicasAreNotReduced) {
  for (const auto& one :
       {config(1, comm::ReducerKind::overlap), config(2, comm::ReducerKind::none)}) {
    const auto options = training_options(one, {}, nullptr, 0, 1);
    EXPECT_EQ(options.gradient_reduction, GradientReduction::none);
    EXPECT_EQ(options.gradient_portion, 0u);
  }
}

}  // namespace
}  // namespace lockstep::train
