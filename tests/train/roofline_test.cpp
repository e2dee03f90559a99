#include "lockstep/train/roofline.hpp"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

constexpr double gflop = 1e9, megabyte = 1e6;

const backend::Ceilings ceilings{
    .flops_per_second = 100 * gflop, .bytes_per_second = 10'000 * megabyte, .product = "8x8x8"};

TEST(Roofline, IsTheLongerOfArithmeticAndMemory) {
  const RooflineBounds bounds =
      compute_roofline(ceilings, {{"a", "forward", "k", gflop, megabyte, 0.1},
                                  {"b", "forward", "k", 0, 100 * megabyte, 0.05}});
  ASSERT_EQ(bounds.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(bounds.rows[0].bound_seconds, 0.01);
  EXPECT_DOUBLE_EQ(bounds.rows[1].bound_seconds, 0.01);
  EXPECT_DOUBLE_EQ(bounds.bound_seconds, 0.02);
  EXPECT_TRUE(bounds.raised_by.empty());
}

TEST(Roofline, AddsOperationsOfOneKind) {
  const TimedOperation operation{"a", "forward", "k", gflop, megabyte, 0.1};
  const RooflineBounds bounds = compute_roofline(ceilings, {operation, operation});
  ASSERT_EQ(bounds.rows.size(), 1u);
  EXPECT_EQ(bounds.rows[0].count, 2);
  EXPECT_DOUBLE_EQ(bounds.rows[0].seconds, 0.2);
  EXPECT_DOUBLE_EQ(bounds.rows[0].bound_seconds, 0.02);
}

// A convolution can exceed the measured rate of matrix products: bfloat16 convolutions with AMX ran
// at 131 % of the rate of a float32 product.
TEST(Roofline, TakesTheRateOfAFasterOperationAsCeiling) {
  const RooflineBounds bounds = compute_roofline(
      ceilings,
      {{"a", "forward", "k", 131 * gflop, 0, 1}, {"b", "forward", "k", 50 * gflop, 0, 1}});
  EXPECT_DOUBLE_EQ(bounds.ceilings.flops_per_second, 131 * gflop);
  EXPECT_EQ(bounds.raised_by, "a, forward");
  for (const RooflineRow& row : bounds.rows) EXPECT_LE(row.bound_seconds, row.seconds);
  EXPECT_DOUBLE_EQ(bounds.rows[1].bound_seconds + bounds.rows[0].bound_seconds, 1 + 50.0 / 131);
}

TEST(Roofline, LeavesBytesOutThatWereNotMoved) {
  const RooflineBounds bounds =
      compute_roofline(ceilings, {{"a", "forward", "k", gflop, 1000 * megabyte, 0.02}});
  ASSERT_EQ(bounds.rows.size(), 1u);
  EXPECT_FALSE(bounds.rows[0].counts_bytes);
  EXPECT_DOUBLE_EQ(bounds.rows[0].bound_seconds, 0.01) << "the arithmetic's";
  EXPECT_EQ(bounds.ceilings.bytes_per_second, ceilings.bytes_per_second);
}

}  // namespace
}  // namespace lockstep::train
