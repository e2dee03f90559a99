// SPDX-License-Identifier: BSD-3-Clause
// Convolutions with 16-bit integers (backend/cpu/cells/int16_kernels.hpp) on maps and weights for
// which integers are most likely to overflow or to lose precision. cells_test.cpp compares them on
// other maps.

#include "backend/cpu/cells/int16_kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "cells_problem.hpp"

namespace lockstep::backend::cpu::cells {
namespace {

/// One complete patch in the middle of the map, and patches that contain parts of it.
constexpr Case one_patch{.images = 2,
                         .in_channels = 160,
                         .out_channels = 32,
                         .height = 12,
                         .width = 12,
                         .kernel = 3,
                         .stride = 1};
constexpr std::int64_t patch_begin = 3, patch_size = 6;

constexpr double p = 0.70710678118654752, q = 1.41421356237309505;
/// Rows of Bt, and of G, of the points 0, p, -p, q, -q and infinity.
constexpr double input_rows[6][6] = {{1, 0, -2.5, 0, 1, 0},        {0, -2 * p, -2, p, 1, 0},
                                     {0, 2 * p, -2, -p, 1, 0},     {0, -0.5 * q, -0.5, q, 1, 0},
                                     {0, 0.5 * q, -0.5, -q, 1, 0}, {0, 1, 0, -2.5, 0, 1}};
constexpr double weight_rows[6][3] = {{1, 0, 0}, {2, 2 * p, 1}, {2, -2 * p, 1},
                                      {1, q, 2}, {1, -q, 2},    {0, 0, 1}};

/// Sets the values of a map: value(image, row, column, channel).
template <class Value>
void set(Map& map, Value&& value) {
  const FeatureMap& to = map.map;
  for (std::int64_t image = 0; image < to.images; ++image)
    for (std::int64_t pixel = 0; pixel < to.shape.pixels(); ++pixel)
      for (std::int64_t channel = 0; channel < to.shape.channels; ++channel)
        to.as<core::BFloat16>()[to.index(image, channel, pixel)] =
            core::to_bfloat16(static_cast<float>(
                value(image, pixel / to.shape.width, pixel % to.shape.width, channel)));
}

void set_all(Map& map, const std::vector<double>& values) {
  set(map, [&](auto image, auto row, auto column, auto channel) {
    return values[map.at(image, row, column) + static_cast<std::size_t>(channel)];
  });
}

class Int16Convolutions : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    kernels_ = GetParam() ? make_avx512_kernels() : make_emulated_kernels();
    if (kernels_ == nullptr) GTEST_SKIP() << "this processor has no AVX512-VNNI";
  }

  /// Runs a direction and returns its result, as computed with integers. The problem stays as it
  /// is.
  std::vector<double> run(Direction direction, Problem& problem) const {
    const auto source = problem.source.values(), destination = problem.destination.values();
    const auto weights = problem.weights;
    problem.run(direction, *kernels_, Algorithm::int16);
    const auto result = direction == Direction::forward         ? problem.destination.values()
                        : direction == Direction::backward_data ? problem.source.values()
                                                                : doubles(problem.weights);
    set_all(problem.source, source);
    set_all(problem.destination, destination);
    problem.weights = weights;
    return result;
  }

  std::unique_ptr<Kernels> kernels_;
};

/// Returns the result of a direction in float64.
std::vector<double> expected(Direction direction, const Problem& problem) {
  const auto source = problem.source.values(), destination = problem.destination.values();
  const std::size_t size = direction == Direction::forward         ? destination.size()
                           : direction == Direction::backward_data ? source.size()
                                                                   : problem.weights.size();
  std::vector<double> result(size);
  problem.for_each_product([&](std::size_t from, std::size_t to, std::size_t weight) {
    switch (direction) {
      case Direction::forward: result[to] += source[from] * problem.weights[weight]; break;
      case Direction::backward_data:
        result[from] += destination[to] * problem.weights[weight];
        break;
      case Direction::backward_weights: result[weight] += source[from] * destination[to]; break;
    }
  });
  return result;
}

/// Value of the patch at a pixel; 0 outside of it.
template <class Value>
double in_patch(std::int64_t row, std::int64_t column, Value&& value) {
  const std::int64_t i = row - patch_begin, j = column - patch_begin;
  return i >= 0 && i < patch_size && j >= 0 && j < patch_size ? value(i, j) : 0;
}

// The inequality of Cauchy and Schwarz is an equality if all values are proportional to the
// coefficients of one frequency: the sum of products has the largest value that is possible. The
// tolerance is that of cells_test.cpp.
TEST_P(Int16Convolutions, DoNotOverflowWhereTheSumsAreLargest) {
  for (int f = 0; f < 36; f += GetParam() ? 1 : 7) {
    SCOPED_TRACE(testing::Message() << "frequency " << f);
    Problem problem(one_patch);
    set(problem.source, [&](auto, auto row, auto column, auto) {
      return in_patch(row, column,
                      [&](auto i, auto j) { return input_rows[f / 6][i] * input_rows[f % 6][j]; });
    });
    for (std::size_t i = 0; i < problem.weights.size(); ++i)
      problem.weights[i] =
          static_cast<float>(weight_rows[f / 6][i % 9 / 3] * weight_rows[f % 6][i % 3]);
    EXPECT_LT(distance(expected(Direction::forward, problem), run(Direction::forward, problem)),
              4e-3);
  }
}

// A single value, or a single kernel, has the norm of its whole vector.
TEST_P(Int16Convolutions, DoNotOverflowForSingleValues) {
  for (const auto& [i, j] : {std::pair{0, 0}, {2, 2}, {3, 1}, {5, 4}}) {
    SCOPED_TRACE(testing::Message() << "pixel " << i << ", " << j);
    Problem problem(one_patch);
    set(problem.source, [&](auto, auto row, auto column, auto channel) {
      return row == patch_begin + i && column == patch_begin + j && channel == 37 ? -1e4 : 0;
    });
    std::fill(problem.weights.begin(), problem.weights.end(), 0.0F);
    for (std::size_t tap = 0; tap < 9; ++tap)
      problem.weights[(5 * 160 + 37) * 9 + tap] = tap % 2 == 0 ? 3e4F : -3e4F;
    for (const auto direction : {Direction::forward, Direction::backward_weights})
      EXPECT_LT(distance(expected(direction, problem), run(direction, problem)), 4e-3)
          << name(direction);
  }
}

// Each image has its own scale in forward and backward data, so its relative error does not depend
// on the other images.
TEST_P(Int16Convolutions, AreAsPreciseForImagesOfAnyMagnitude) {
  Case c = one_patch;
  c.images = 5;
  for (const auto direction : {Direction::forward, Direction::backward_data}) {
    SCOPED_TRACE(name(direction));
    Problem problem(c);
    const bool is_forward = direction == Direction::forward;
    core::Random random(3, core::RandomStream::test);
    set(is_forward ? problem.source : problem.destination, [&](auto image, auto, auto, auto) {
      return std::pow(1e-4, static_cast<double>(image) - 2) * value(random);
    });
    const auto all = expected(direction, problem), computed = run(direction, problem);
    const auto size = static_cast<std::ptrdiff_t>(all.size() / 5);
    for (std::ptrdiff_t image = 0; image < 5; ++image) {
      const auto of_image = [&](const std::vector<double>& values) {
        return std::vector<double>(values.begin() + image * size,
                                   values.begin() + (image + 1) * size);
      };
      EXPECT_LT(distance(of_image(all), of_image(computed)), 4e-3) << "image " << image;
    }
  }
}

TEST_P(Int16Convolutions, PropagateInfinitiesAndNan) {
  for (const float special :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3e38F}) {
    SCOPED_TRACE(special);
    Problem problem(one_patch);
    const auto clean = run(Direction::forward, problem);
    problem.source.map.as<core::BFloat16>()[problem.source.map.index(1, 40, 5 * 12 + 5)] =
        core::to_bfloat16(special);
    const auto result = run(Direction::forward, problem);
    const std::size_t at = problem.destination.at(1, 5, 5);
    for (std::size_t channel = 0; channel < 32; ++channel)
      EXPECT_FALSE(std::isfinite(result[at + channel])) << "channel " << channel;
    for (std::size_t i = 0; i < problem.destination.at(1, 0, 0); ++i)
      ASSERT_EQ(result[i], clean[i]) << "of another image";
    for (const double gradient : run(Direction::backward_weights, problem)) {
      if (!std::isfinite(gradient)) return;
    }
    ADD_FAILURE() << "all gradients are finite";
  }
}

TEST_P(Int16Convolutions, PropagateNanOfWeights) {
  Problem problem(one_patch);
  problem.weights[7 * 160 * 9] = std::numeric_limits<float>::quiet_NaN();
  const auto result = run(Direction::forward, problem);
  EXPECT_FALSE(std::isfinite(result[7]));
  EXPECT_TRUE(std::isfinite(result[8]));
}

TEST_P(Int16Convolutions, TakeVectorsOfTinyValuesAsZeros) {
  Problem problem(one_patch);
  set(problem.source, [](auto, auto, auto, auto channel) { return channel % 2 == 0 ? 1e-19 : 0; });
  for (const auto direction : {Direction::forward, Direction::backward_weights}) {
    for (const double result : run(direction, problem)) ASSERT_EQ(result, 0) << name(direction);
  }
}

INSTANTIATE_TEST_SUITE_P(Instructions, Int16Convolutions, testing::Bool(),
                         [](const auto& test) { return test.param ? "AVX512_VNNI" : "portable"; });

}  // namespace
}  // namespace lockstep::backend::cpu::cells
