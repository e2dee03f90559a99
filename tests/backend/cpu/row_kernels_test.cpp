// SPDX-License-Identifier: BSD-3-Clause
// Compares the kernels of batch norm with loops over the elements of a plane. The layouts and
// shapes give rows of one and of several vectors, with and without single elements at the end, and
// more rows than are processed together. All values are small multiples of 1/4, so that float32
// arithmetic is exact; results in bfloat16 are rounded once, in both computations alike. Results
// must therefore be equal.

#include "backend/cpu/kernels/row_kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "lockstep/core/random.hpp"

namespace lockstep::backend::cpu {
namespace {

using core::BFloat16;

const std::vector<FeatureMap> maps{
    {.images = 1, .shape = {16, 4, 4}, .layout = MapLayout::blocked16},
    {.images = 1, .shape = {16, 5, 7}, .layout = MapLayout::blocked16},
    {.images = 1, .shape = {8, 6, 6}, .layout = MapLayout::blocked8},
    {.images = 1, .shape = {8, 5, 7}, .layout = MapLayout::blocked8},
    {.images = 1, .shape = {3, 7, 7}, .layout = MapLayout::planar},
    {.images = 1, .shape = {3, 32, 32}, .layout = MapLayout::planar},
    {.images = 1, .shape = {10, 3, 3}, .layout = MapLayout::channels_last},
    {.images = 1, .shape = {72, 5, 5}, .layout = MapLayout::channels_last},
    {.images = 45, .shape = {40, 2, 3}, .layout = MapLayout::blocked32x32},
};

float number(float value) { return value; }
float number(BFloat16 value) { return core::to_float(value); }
template <class T>
T rounded(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return core::to_bfloat16(value);
  }
}

/// Multiples of 1/4 between -2 and 2.
class Values {
 public:
  template <class T>
  std::vector<T> plane(const FeatureMap& map) {
    std::vector<T> values(static_cast<std::size_t>(map.plane(0)));
    for (T& value : values) value = rounded<T>(next());
    return values;
  }
  /// A row of coefficients: one value per lane, repeated.
  std::vector<float> row(const FeatureMap& map, RowTiling tiling) {
    std::vector<float> values(static_cast<std::size_t>(tiling.width));
    const auto lanes = static_cast<std::size_t>(map.lanes());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = i < lanes ? next() : values[i - lanes];
    return values;
  }

 private:
  float next() { return static_cast<float>(random_.below(17)) / 4 - 2; }
  core::Random random_{5, core::RandomStream::test};
};

template <class T>
class RowKernels : public testing::Test {
 protected:
  /// Calls check(map, tiling) for each map.
  template <class Check>
  static void for_each_map(Check&& check) {
    for (const FeatureMap& map : maps) {
      const RowTiling tiling = tile_rows(map);
      SCOPED_TRACE(testing::Message() << map.lanes() << " lanes, " << map.shape.pixels()
                                      << " pixels, rows of " << tiling.width);
      check(map, tiling);
    }
  }
  static std::vector<float> numbers(const std::vector<T>& values) {
    std::vector<float> all;
    for (const T value : values) all.push_back(number(value));
    return all;
  }
  Values values_;
};
using Types = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(RowKernels, Types);

TEST(RowTiling, RowsCoverThePlaneAndAreWholeVectorsIfPossible) {
  for (const FeatureMap& map : maps) {
    const RowTiling tiling = tile_rows(map);
    EXPECT_EQ(tiling.rows * tiling.width, map.plane(0));
    for (std::int64_t block = 0; block < map.image_blocks(); ++block)
      EXPECT_EQ(rows_of_plane(tiling, map, block) * tiling.width, map.plane(block));
    EXPECT_EQ(tiling.width, tiling.repeat * map.lanes());
  }
  EXPECT_EQ(tile_rows({.shape = {64, 4, 4}, .layout = MapLayout::blocked16}).width, 16);
  EXPECT_EQ(tile_rows({.shape = {64, 4, 4}, .layout = MapLayout::blocked8}).width, 16);
  EXPECT_EQ(tile_rows({.shape = {64, 4, 4}, .layout = MapLayout::planar}).width, 16);
  EXPECT_EQ(tile_rows({.shape = {64, 4, 4}, .layout = MapLayout::channels_last}).width, 64);
  EXPECT_EQ(tile_rows({.shape = {64, 7, 7}, .layout = MapLayout::planar}).width, 49);
}

TYPED_TEST(RowKernels, AccumulateAddsDifferencesAndTheirSquares) {
  this->for_each_map([&](const FeatureMap& map, RowTiling tiling) {
    const auto x = this->values_.template plane<TypeParam>(map);
    const auto shift = this->values_.row(map, tiling);
    const auto before = this->values_.row(map, tiling);
    auto sum = before, square = before, expected_sum = before, expected_square = before;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t column = i % shift.size();
      const float difference = number(x[i]) - shift[column];
      expected_sum[column] += difference;
      expected_square[column] += difference * difference;
    }
    accumulate(x.data(), tiling, shift.data(), sum.data(), square.data());
    EXPECT_EQ(sum, expected_sum);
    EXPECT_EQ(square, expected_square);
  });
}

TYPED_TEST(RowKernels, NormaliseAppliesTheCoefficientsTheResidualAndTheActivation) {
  this->for_each_map([&](const FeatureMap& map, RowTiling tiling) {
    const auto x = this->values_.template plane<TypeParam>(map);
    const auto residual = this->values_.template plane<TypeParam>(map);
    const auto scale = this->values_.row(map, tiling);
    const auto offset = this->values_.row(map, tiling);
    for (const bool with_residual : {false, true}) {
      for (const Activation activation : {Activation::none, Activation::relu}) {
        std::vector<TypeParam> y(x.size()), expected(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::size_t column = i % scale.size();
          float value = scale[column] * number(x[i]) + offset[column];
          if (with_residual) value += number(residual[i]);
          if (activation == Activation::relu && value < 0) value = 0;
          expected[i] = rounded<TypeParam>(value);
        }
        normalise(NormaliseRows<TypeParam>{x.data(), with_residual ? residual.data() : nullptr,
                                           y.data(), scale.data(), offset.data(), activation},
                  tiling);
        EXPECT_EQ(this->numbers(y), this->numbers(expected));
      }
    }
  });
}

TYPED_TEST(RowKernels, GradientsAreMaskedSummedAndCombined) {
  this->for_each_map([&](const FeatureMap& map, RowTiling tiling) {
    const auto plane = [&] { return this->values_.template plane<TypeParam>(map); };
    const auto row = [&] { return this->values_.row(map, tiling); };
    const auto dy = plane(), dy2 = plane(), x = plane(), y = plane();
    const auto scale = row(), offset = row(), center = row(), a = row(), b = row(), c = row();
    const auto before = row();
    for (const bool with_dy2 : {false, true}) {
      for (const Mask mask : {Mask::none, Mask::affine, Mask::output}) {
        SCOPED_TRACE(testing::Message() << "mask " << static_cast<int>(mask));
        std::vector<TypeParam> masked(x.size()), dx(x.size()), expected_g(x.size()),
            expected_dx(x.size());
        auto sum = before, product = before, expected_sum = before, expected_product = before;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::size_t column = i % scale.size();
          const float value = number(x[i]);
          float g = number(dy[i]) + (with_dy2 ? number(dy2[i]) : 0.0f);
          if (mask == Mask::affine && !(scale[column] * value + offset[column] > 0)) g = 0;
          if (mask == Mask::output && !(number(y[i]) > 0)) g = 0;
          expected_g[i] = rounded<TypeParam>(g);
          expected_sum[column] += g;
          expected_product[column] += g * (value - center[column]);
          expected_dx[i] = rounded<TypeParam>(a[column] * g + b[column] * value + c[column]);
        }
        GradientRows<TypeParam> rows{.dy = dy.data(),
                                     .dy2 = with_dy2 ? dy2.data() : nullptr,
                                     .x = x.data(),
                                     .y = y.data(),
                                     .scale = scale.data(),
                                     .offset = offset.data(),
                                     .mask = mask};
        input_gradient(rows, dx.data(), tiling, {a.data(), b.data(), c.data()});
        rows.masked = masked.data();
        gradient_sums(rows, tiling, center.data(), sum.data(), product.data());
        EXPECT_EQ(this->numbers(masked), this->numbers(expected_g));
        EXPECT_EQ(this->numbers(dx), this->numbers(expected_dx));
        EXPECT_EQ(sum, expected_sum);
        EXPECT_EQ(product, expected_product);
      }
    }
  });
}

TYPED_TEST(RowKernels, ANanPassesTheActivation) {
  const RowTiling tiling = tile_rows(maps.front());
  std::vector<TypeParam> x(static_cast<std::size_t>(maps.front().plane(0))), y(x.size());
  x[3] = rounded<TypeParam>(std::numeric_limits<float>::quiet_NaN());
  const std::vector<float> one(static_cast<std::size_t>(tiling.width), 1.0f);
  normalise(NormaliseRows<TypeParam>{x.data(), nullptr, y.data(), one.data(), one.data(),
                                     Activation::relu},
            tiling);
  EXPECT_TRUE(std::isnan(number(y[3])));
  EXPECT_EQ(number(y[2]), 1);
}

}  // namespace
}  // namespace lockstep::backend::cpu
