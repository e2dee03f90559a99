// SPDX-License-Identifier: BSD-3-Clause
// Compares the max-pooling kernels, which process groups of lanes (channels) of a pixel together,
// with loops over one lane. The numbers of lanes are below, equal to and above the sizes of the
// groups. The windows of max-pooling overlap, leave gaps, are a partition of the plane, or extend
// beyond its borders. Results must be exact: only bfloat16 outputs are rounded, in both
// computations alike.

#include "backend/cpu/kernels/pool_kernels.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "lockstep/core/random.hpp"

namespace lockstep::backend::cpu {
namespace {

using core::BFloat16;

constexpr std::int64_t height = 5, width = 6, pixels = height * width;
constexpr std::array<PoolWindows, 5> all_windows{{
    {.kernel = 2, .stride = 2, .padding = 0, .height = height, .width = width, .out_width = 3},
    {.kernel = 3, .stride = 1, .padding = 1, .height = height, .width = width, .out_width = 6},
    {.kernel = 3, .stride = 2, .padding = 1, .height = height, .width = width, .out_width = 3},
    {.kernel = 1, .stride = 2, .padding = 0, .height = height, .width = width, .out_width = 3},
    {.kernel = 2, .stride = 2, .padding = 0, .height = 4, .width = width, .out_width = 3},
}};
/// All lanes of each pixel, and some of the lanes.
constexpr std::array<LaneRange, 8> lane_ranges{
    {{1, 1}, {8, 8}, {16, 16}, {64, 64}, {70, 70}, {155, 155}, {100, 32}, {200, 91}}};

std::int64_t rows_of(const PoolWindows& windows) {
  return (windows.height + 2 * windows.padding - windows.kernel) / windows.stride + 1;
}

/// A pixel of a window: its index in the plane and its place in the window.
struct WindowPixel {
  std::int64_t pixel, place;
};
std::vector<WindowPixel> window_at(const PoolWindows& windows, std::int64_t row,
                                   std::int64_t column) {
  std::vector<WindowPixel> window;
  for (std::int64_t i = 0; i < windows.kernel; ++i) {
    for (std::int64_t j = 0; j < windows.kernel; ++j) {
      const std::int64_t y = row * windows.stride - windows.padding + i;
      const std::int64_t x = column * windows.stride - windows.padding + j;
      if (y >= 0 && y < windows.height && x >= 0 && x < windows.width)
        window.push_back({y * windows.width + x, i * windows.kernel + j});
    }
  }
  return window;
}

float number(float value) { return value; }
float number(BFloat16 value) { return core::to_float(value); }
void assign(float& to, float value) { to = value; }
void assign(BFloat16& to, float value) { to = core::to_bfloat16(value); }

template <class T>
std::vector<T> random_values(std::int64_t count) {
  core::Random random(3, core::RandomStream::test);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) assign(value, static_cast<float>(random.below(8)));  // with ties
  return values;
}

template <class T>
class PoolKernels : public testing::Test {};
using Types = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(PoolKernels, Types);

/// The maxima of all windows of a plane, their places and the gradient of the plane.
template <class T>
struct Result {
  std::vector<T> maxima, back;
  std::vector<std::uint8_t> places;
};

/// Calls the kernels for each row. The gradient of the plane has `before` at first.
template <class T>
Result<T> pool(const PoolWindows& windows, LaneRange lanes, const std::vector<T>& plane,
               const std::vector<T>& gradient, const std::vector<T>& before) {
  Result<T> result{gradient, before, std::vector<std::uint8_t>(gradient.size(), 255)};
  for (std::int64_t row = 0; row < rows_of(windows); ++row) {
    const std::int64_t at = row * windows.out_width * lanes.stride;
    max_of_row(plane.data(), windows, row, lanes, result.maxima.data() + at,
               result.places.data() + at);
    add_at_places(gradient.data() + at, result.places.data() + at, windows, row, lanes,
                  result.back.data());
  }
  return result;
}

TYPED_TEST(PoolKernels, MaxTakesTheFirstLargestValueAndSendsItsGradientThere) {
  for (const PoolWindows& windows : all_windows) {
    for (const LaneRange lanes : lane_ranges) {
      SCOPED_TRACE(testing::Message() << windows.kernel << "x" << windows.kernel << ", stride "
                                      << windows.stride << ", height " << windows.height << ", "
                                      << lanes.count << " of " << lanes.stride << " lanes");
      const std::int64_t outputs = rows_of(windows) * windows.out_width;
      const auto plane = random_values<TypeParam>(pixels * lanes.stride);
      const auto gradient = random_values<TypeParam>(outputs * lanes.stride);
      // The values that a partition does not read.
      std::vector<TypeParam> before(plane.size()), expected(plane.size());
      if (windows.partition()) {
        for (TypeParam& value : before) assign(value, std::numeric_limits<float>::quiet_NaN());
      }
      const auto result = pool(windows, lanes, plane, gradient, before);
      for (std::int64_t output = 0; output < outputs; ++output) {
        const auto window =
            window_at(windows, output / windows.out_width, output % windows.out_width);
        for (std::int64_t lane = 0; lane < lanes.count; ++lane) {
          const auto at = [&](std::int64_t pixel) {
            return static_cast<std::size_t>(pixel * lanes.stride + lane);
          };
          WindowPixel best = window.front();
          for (const WindowPixel& here : window) {
            if (number(plane[at(here.pixel)]) > number(plane[at(best.pixel)])) best = here;
          }
          ASSERT_EQ(number(result.maxima[at(output)]), number(plane[at(best.pixel)]));
          ASSERT_EQ(result.places[at(output)], best.place);
          TypeParam& sum = expected[at(best.pixel)];
          assign(sum, number(sum) + number(gradient[at(output)]));
        }
      }
      for (std::size_t i = 0; i < plane.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        if (at % lanes.stride < lanes.count && at / lanes.stride < windows.height * windows.width) {
          ASSERT_EQ(number(result.back[i]), number(expected[i]));
        } else {  // another lane or pixel
          ASSERT_EQ(std::isnan(number(result.back[i])), windows.partition());
        }
      }
      for (std::size_t i = 0; i < result.places.size(); ++i) {
        if (static_cast<std::int64_t>(i) % lanes.stride >= lanes.count) {
          ASSERT_EQ(result.places[i], 255) << "another lane";
        }
      }
    }
  }
}

TYPED_TEST(PoolKernels, MaxOfNanIsTheLastNanAndOfMinusInfinitiesTheFirst) {
  constexpr PoolWindows windows = all_windows.front();
  for (const LaneRange lanes : lane_ranges) {
    SCOPED_TRACE(testing::Message() << lanes.count << " of " << lanes.stride << " lanes");
    const std::int64_t outputs = rows_of(windows) * windows.out_width;
    auto plane = random_values<TypeParam>(pixels * lanes.stride);
    const auto gradient = random_values<TypeParam>(outputs * lanes.stride);
    const auto last = static_cast<std::size_t>(lanes.count - 1);
    const auto stride = static_cast<std::size_t>(lanes.stride);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    assign(plane[last], nan);  // the first and the second pixel of the first window
    assign(plane[stride + last], nan);
    assign(plane[2 * stride + last], nan);  // the first pixel of the second window
    auto result = pool(windows, lanes, plane, gradient, plane);
    EXPECT_TRUE(std::isnan(number(result.maxima[last])));
    EXPECT_EQ(result.places[last], 1);
    EXPECT_TRUE(std::isnan(number(result.maxima[stride + last])));
    EXPECT_EQ(result.places[stride + last], 0);
    for (TypeParam& value : plane) assign(value, -std::numeric_limits<float>::infinity());
    result = pool(windows, lanes, plane, gradient, plane);
    EXPECT_EQ(result.places[last], 0);
  }
}

}  // namespace
}  // namespace lockstep::backend::cpu
