// SPDX-License-Identifier: BSD-3-Clause
#include "profile_rows.hpp"

#include <gtest/gtest.h>

#include "lockstep/study/operation_groups.hpp"

namespace lockstep::study {
namespace {

using namespace train;

const backend::Ceilings ceilings{
    .flops_per_second = 100e9, .bytes_per_second = 10e9, .product = "8x8x8"};

record::ProfiledOperation operation(double flops, double bytes, double seconds) {
  record::ProfiledOperation row;
  row.ceiling = "none";
  row.flops = flops;
  row.bytes = bytes;
  row.seconds = {seconds};
  return row;
}

record::ProfiledOperation bounded(const record::ProfiledOperation& row) {
  record::Profile profile;
  profile.operations = {row};
  apply_ceilings(ceilings, profile);
  return profile.operations[0];
}

TEST(OperationSums, CountCallsAndAddSecondsInTheOrderOfExecution) {
  std::vector<OperationSum> sums;
  const std::vector<OperationTime> step{{{2, "forward"}, 0, 1},
                                        {{1, "forward"}, 1, 3},
                                        {{no_node, "update"}, 3, 4},
                                        {{no_node, "update"}, 4, 6}};
  add(step, sums);
  add(step, sums);
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_EQ(sums[0].key, OperationKey(2, "forward"));
  EXPECT_EQ(sums[1].seconds, 4);
  EXPECT_EQ(sums[2].calls, 4);
  EXPECT_EQ(sums[2].seconds, 6);
}

TEST(ProfileCeilings, AreThoseOfTheResourceThatNeedsLonger) {
  const auto compute = bounded(operation(50e9, 1e9, 1));
  EXPECT_EQ(compute.ceiling, "compute");
  EXPECT_DOUBLE_EQ(compute.bound_seconds, 0.5);
  const auto memory = bounded(operation(5e9, 2e9, 1));
  EXPECT_EQ(memory.ceiling, "memory");
  EXPECT_DOUBLE_EQ(memory.bound_seconds, 0.2);
}

TEST(ProfileCeilings, CountNoBytesThatCannotHaveBeenMoved) {
  const auto cached = bounded(operation(5e9, 20e9, 1));
  EXPECT_EQ(cached.ceiling, "cache");
  EXPECT_DOUBLE_EQ(cached.bound_seconds, 0.05);
}

TEST(ProfileCeilings, AreUnknownWithoutWorkOrRates) {
  EXPECT_EQ(bounded(operation(0, 0, 1)).ceiling, "none");
  record::Profile profile;
  profile.operations = {operation(5e9, 2e9, 1)};
  apply_ceilings({}, profile);
  EXPECT_EQ(profile.operations[0].ceiling, "none");
  EXPECT_EQ(profile.operations[0].bound_seconds, 0);
}

// A convolution can exceed the measured rate of matrix products: bfloat16 convolutions with AMX ran
// at 131 % of the rate of a float32 product.
TEST(ProfileCeilings, AreRaisedByAFasterOperation) {
  record::Profile profile;
  profile.operations = {operation(200e9, 0, 1), operation(50e9, 0, 1)};
  profile.operations[0].name = "conv1";
  apply_ceilings(ceilings, profile);
  EXPECT_DOUBLE_EQ(profile.flops_per_second, 200e9);
  EXPECT_NE(profile.ceiling_source.find("; conv1 ("), std::string::npos);
  EXPECT_DOUBLE_EQ(profile.operations[0].bound_seconds, 1);
  EXPECT_DOUBLE_EQ(profile.operations[1].bound_seconds, 0.25);
}

TEST(OperationGroups, AddOperationsOfOneKindAndBeginWithTheLongest) {
  record::Profile profile;
  profile.operations = {operation(1e9, 20e9, 1), operation(50e9, 1e9, 1), operation(10e9, 1e9, 2)};
  profile.operations[0].what = "pool";
  apply_ceilings(ceilings, profile);
  const auto groups = group_operations(profile);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].seconds, 3);
  EXPECT_EQ(groups[0].flops, 60e9);
  EXPECT_EQ(groups[0].ceiling, "compute");
  EXPECT_DOUBLE_EQ(groups[0].bound_seconds, 0.6);
  EXPECT_EQ(groups[1].what, "pool");
  EXPECT_EQ(groups[1].ceiling, "cache");
  EXPECT_DOUBLE_EQ(groups[1].bound_seconds, 0.01);
}

}  // namespace
}  // namespace lockstep::study
