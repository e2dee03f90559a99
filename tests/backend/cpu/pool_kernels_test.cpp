// Compares the pooling kernels, which process all lanes (channels) of a pixel together, with loops
// over one lane. The numbers of lanes are below, equal to and above the sizes of the inner loops of
// the kernels. Results must be exact: only bfloat16 outputs are rounded, in both computations
// alike.

#include "backend/cpu/pool_kernels.hpp"

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

constexpr std::int64_t pixels = 6;
constexpr std::array<WindowPixel, 4> window{{{0, 1}, {1, 2}, {3, 4}, {4, 5}}};
constexpr std::array<std::int64_t, 5> lane_counts{1, 16, 64, 70, 130};

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

TYPED_TEST(PoolKernels, MaxTakesTheFirstLargestValueAndSendsItsGradientThere) {
  for (const std::int64_t lanes : lane_counts) {
    SCOPED_TRACE(lanes);
    const auto plane = random_values<TypeParam>(pixels * lanes);
    const auto gradient = random_values<TypeParam>(lanes);
    std::vector<TypeParam> maxima(gradient.size()), back(plane.size());
    std::vector<std::uint8_t> places(gradient.size());
    max_of_window(plane.data(), window, lanes, maxima.data(), places.data());
    add_at_places(gradient.data(), places.data(), window, lanes, back.data());
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const auto at = [&](std::int64_t pixel) {
        return static_cast<std::size_t>(pixel * lanes + lane);
      };
      WindowPixel best = window.front();
      for (const WindowPixel& here : window) {
        if (number(plane[at(here.pixel)]) > number(plane[at(best.pixel)])) best = here;
      }
      EXPECT_EQ(number(maxima[at(0)]), number(plane[at(best.pixel)]));
      EXPECT_EQ(places[at(0)], best.place);
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
        EXPECT_EQ(number(back[at(pixel)]), pixel == best.pixel ? number(gradient[at(0)]) : 0);
    }
  }
}

TYPED_TEST(PoolKernels, MaxOfANanIsNanAndOfMinusInfinitiesTheFirst) {
  for (const std::int64_t lanes : lane_counts) {
    SCOPED_TRACE(lanes);
    auto plane = random_values<TypeParam>(pixels * lanes);
    const std::size_t last = static_cast<std::size_t>(lanes - 1);
    assign(plane[last], std::numeric_limits<float>::quiet_NaN());
    std::vector<TypeParam> maxima(last + 1);
    std::vector<std::uint8_t> places(last + 1);
    max_of_window(plane.data(), window, lanes, maxima.data(), places.data());
    EXPECT_TRUE(std::isnan(number(maxima[last])));
    EXPECT_EQ(places[last], window.front().place);
    for (TypeParam& value : plane) assign(value, -std::numeric_limits<float>::infinity());
    max_of_window(plane.data(), window, lanes, maxima.data(), places.data());
    EXPECT_EQ(places[last], window.front().place);
  }
}

TYPED_TEST(PoolKernels, MeanIsOverAllPixelsAndItsGradientGoesToAll) {
  for (const std::int64_t lanes : lane_counts) {
    SCOPED_TRACE(lanes);
    const std::int64_t channels = lanes > 16 ? lanes - 3 : lanes;
    const auto plane = random_values<TypeParam>(pixels * lanes);
    std::vector<float> means(static_cast<std::size_t>(channels));
    mean_of_pixels(plane.data(), pixels, lanes, channels, means.data());
    auto back = random_values<TypeParam>(pixels * lanes);
    fill_pixels(means.data(), 0.5F, pixels, lanes, channels, back.data());
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      float sum = 0;
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
        sum += number(plane[static_cast<std::size_t>(pixel * lanes + lane)]);
      const bool exists = lane < channels;
      TypeParam expected{};
      if (exists) {
        EXPECT_EQ(means[static_cast<std::size_t>(lane)], sum * (1.0F / pixels));
        assign(expected, 0.5F * means[static_cast<std::size_t>(lane)]);
      }
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
        EXPECT_EQ(number(back[static_cast<std::size_t>(pixel * lanes + lane)]), number(expected));
    }
  }
}

}  // namespace
}  // namespace lockstep::backend::cpu
