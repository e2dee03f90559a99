// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/study/layers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "layer_memory.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::study {
namespace {

constexpr backend::Ceilings ceilings{
    .flops_per_second = 1e9, .bytes_per_second = 2e9, .product = {}};

std::unique_ptr<backend::Backend> cpu() {
  return backend::make_backend({.kind = backend::DeviceKind::cpu, .threads = 1});
}

record::LayerRow measure(const char* text, std::uint64_t limit = std::uint64_t{1} << 40) {
  const auto device = cpu();
  const graph::Layer layer = graph::parse_layer(text);
  return measure_layer({.batch = layer.batch}, layer, *device, ceilings, limit);
}

TEST(MeasureLayer, CountsTheWorkOfTheLayerAlone) {
  const record::LayerRow relu = measure("relu@2x8x6x4");
  constexpr double elements = 2 * 8 * 6 * 4;
  EXPECT_EQ(relu.forward_bytes, 2 * 4 * elements);
  EXPECT_EQ(relu.backward_bytes, 3 * 4 * elements) << "reads gradient and sign, writes gradient";
  const record::LayerRow conv = measure("conv:16-8,k3,p1@2x6x6");
  constexpr double product = 2. * 2 * 8 * 36 * 144;
  EXPECT_EQ(conv.forward_flops, product);
  EXPECT_EQ(conv.backward_flops, 2 * product) << "gradients of the input and of the weights";
  const record::LayerRow first = measure("conv:3-8,k3,p1@2x6x6");
  EXPECT_EQ(first.backward_flops, first.forward_flops) << "images need no gradient";
  const record::LayerRow linear = measure("linear:40-30@4");
  EXPECT_EQ(linear.forward_flops, 2. * 4 * 40 * 30);
  EXPECT_EQ(linear.backward_flops, 2 * 2. * 4 * 40 * 30);
  EXPECT_EQ(linear.forward_bytes, 4. * (4 * 70 + 40 * 30 + 30));
  EXPECT_EQ(linear.backward_bytes, 2 * linear.forward_bytes) << "a pass for each gradient";
}

TEST(MeasureLayer, KeepsEveryRepeat) {
  const record::LayerRow row = measure("maxpool:k2@2x8x16x16");
  EXPECT_EQ(row.status, "complete");
  ASSERT_EQ(row.forward_seconds.size(), std::size_t{layer_repeats});
  ASSERT_EQ(row.backward_seconds.size(), std::size_t{layer_repeats});
  for (const double seconds : row.forward_seconds) EXPECT_GT(seconds, 0);
  for (const double seconds : row.backward_seconds) EXPECT_GT(seconds, 0);
  EXPECT_EQ(row.flops_per_second, 1e9);
  EXPECT_EQ(row.bytes_per_second, 2e9);
}

TEST(MeasureLayer, ReportsUnreadablePowerAsUnknown) {
  const record::LayerRow row = measure("relu@2x8x6x4");
  EXPECT_TRUE(std::isnan(row.power_watts)) << "CPUs have no energy counter";
  EXPECT_TRUE(std::isnan(row.energy_joules));
}

TEST(MeasureLayer, ReportsALackOfMemoryAsARow) {
  const record::LayerRow row = measure("relu@2x8x6x4", 1000);
  EXPECT_EQ(row.status, "out_of_memory");
  EXPECT_TRUE(row.forward_seconds.empty());
  EXPECT_EQ(row.peak_bytes, 0u);
  EXPECT_GT(row.estimated_bytes, 0u);
}

TEST(FindDeepest, FindsTheBoundaryFromEveryGuess) {
  for (const std::int64_t deepest : {0, 1, 2, 7, 8, 99, 100}) {
    for (const std::int64_t guess : {0, 1, 2, 6, 8, 50, 100, 1000}) {
      bool has_last = deepest == 0, has_first = deepest == 100;
      const auto fits = [&](std::int64_t depth) {
        EXPECT_GE(depth, 1);
        EXPECT_LE(depth, 100);
        has_last = has_last || depth == deepest;
        has_first = has_first || depth == deepest + 1;
        return depth <= deepest;
      };
      EXPECT_EQ(find_deepest(guess, 100, fits), deepest) << "guess " << guess;
      EXPECT_TRUE(has_last && has_first) << "the boundary itself was tried";
    }
  }
}

TEST(FindDeepest, NeedsTwoCallsIfTheGuessIsRight) {
  int calls = 0;
  find_deepest(40, 100, [&](std::int64_t depth) { return ++calls, depth <= 40; });
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace lockstep::study
