// SPDX-License-Identifier: BSD-3-Clause
// Compares the arithmetic of Winograd convolutions with sums over the nine taps in float64: for
// vectors of 8 and of 16 lanes, regardless of the processor, for each layout and data type of
// feature maps, and for maps whose size is not a multiple of the tile size, and for both strides.
//
// Tolerances, as relative Euclidean norms:
//   - float32: 5e-6. Sums of 300 to 600 products, and the errors of the transforms; measured: 1e-6.
//   - bfloat16: 4e-3. Maps are read exactly; only the output is rounded, with a relative error of
//     at most 2^-8.

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "backend/cpu/convolution/winograd_products.hpp"
#include "backend/cpu/convolution/winograd_strided_kernels.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::backend::cpu::winograd {
namespace {

using core::BFloat16;
using core::DataType;

struct Case {
  int lanes;
  MapLayout layout;
  DataType type;
  std::int64_t height, width;  // of the input
  int stride;
};

constexpr std::int64_t images = 3, channels = 64;

/// Returns a random value in [-1, 1) that bfloat16 represents exactly.
float value(core::Random& random) {
  return static_cast<float>(static_cast<int>(random.below(256)) - 128) / 128;
}

class Map {
 public:
  explicit Map(const Case& c, int stride = 1)
      : map{images,
            {channels, (c.height + stride - 1) / stride, (c.width + stride - 1) / stride},
            c.type,
            c.layout,
            nullptr},
        bytes_(map.bytes()) {
    map.data = bytes_.data();
  }

  float get(std::int64_t image, std::int64_t channel, std::int64_t row, std::int64_t column) const {
    if (row < 0 || column < 0 || row >= map.shape.height || column >= map.shape.width) return 0;
    const std::int64_t at = index(image, channel, row, column);
    return map.type == DataType::float32 ? map.as<float>()[at]
                                         : core::to_float(map.as<BFloat16>()[at]);
  }
  void fill(core::Random& random) {
    for (std::size_t i = 0; i < map.elements(); ++i) {
      if (map.type == DataType::float32) {
        map.as<float>()[i] = value(random);
      } else {
        map.as<BFloat16>()[i] = core::to_bfloat16(value(random));
      }
    }
  }

  FeatureMap map;

 private:
  std::int64_t index(std::int64_t image, std::int64_t channel, std::int64_t row,
                     std::int64_t column) const {
    return map.index(image, channel, row * map.shape.width + column);
  }
  std::vector<std::byte> bytes_;
};

struct Storage {
  Storage(std::int64_t entries, std::int64_t count, int lanes, bool is_strided_map = false)
      : panels{.entries = entries,
               .panels = count,
               .vector_lanes = lanes,
               .is_strided_map = is_strided_map},
        floats(panels.bytes() / sizeof(float)) {
    panels.data = floats.data();
  }

  Panels panels;
  std::vector<float> floats;
};

class WinogradKernels : public testing::TestWithParam<Case> {
 protected:
  WinogradKernels()
      : x(GetParam()), y(GetParam(), GetParam().stride), weights(channels * channels * 9) {
    x.fill(random);
    for (float& w : weights) w = value(random);
  }

  int lanes() const { return GetParam().lanes; }
  int stride() const { return GetParam().stride; }
  bool is_strided() const { return stride() == 2; }
  double tolerance() const { return GetParam().type == DataType::float32 ? 5e-6 : 4e-3; }
  void transform_weights(const Kernels& kernels, std::int64_t panel, const Panels& to) const {
    (is_strided() ? strided::transform_weights : winograd::transform_weights)(kernels, panel, to);
  }
  void transform_input(const Tiling& tiling, const Panels& to) const {
    (is_strided() ? strided::transform_input : winograd::transform_input)(x.map, tiling,
                                                                          {0, tiling.count}, to, 0);
  }
  void transform_output(const Panels& from, std::int64_t first, TileRange range, std::int64_t panel,
                        const float* bias, PartialSums* statistics) const {
    (is_strided() ? strided::transform_output : winograd::transform_output)(
        from, first, y.map, tiling_of(y.map), range, panel, bias, statistics);
  }
  std::int64_t panel_count() const { return channels / panel_lanes(lanes()); }

  core::Random random{1, core::RandomStream::test};
  Map x, y;
  std::vector<float> weights;
};

TEST_P(WinogradKernels, OutputEqualsDirectConvolution) {
  std::vector<float> bias(channels);
  for (float& b : bias) b = value(random);
  const Tiling tiling = tiling_of(y.map);
  const Kernels kernels{
      .data = weights.data(), .depth = channels, .depth_stride = 9, .lane_stride = channels * 9};
  const Storage input(tiling.count, panel_count(), lanes(), is_strided()), u(channels, 1, lanes()),
      m(tiling.count, 1, lanes(), is_strided());
  transform_input(tiling, input.panels);
  const auto in_panel = static_cast<std::size_t>(panel_lanes(lanes()));
  std::vector<double> sums(channels), squares(channels);
  for (std::int64_t panel = 0; panel < panel_count(); ++panel) {
    transform_weights(kernels, panel, u.panels);
    for (std::int64_t f = 0; f < frequencies; ++f)
      multiply(input.panels, 0, u.panels, m.panels, tiling.count, f);
    PartialSums part;
    const std::int64_t half = tiling.count / 2;
    transform_output(m.panels, 0, {0, half}, panel, bias.data(), &part);
    transform_output(m.panels, half, {half, tiling.count - half}, panel, bias.data(), &part);
    EXPECT_EQ(part.count, images * y.map.shape.pixels());
    for (std::size_t i = 0; i < in_panel; ++i) {
      const std::size_t k = static_cast<std::size_t>(panel) * in_panel + i;
      const double shift = part.shift[i], count = static_cast<double>(part.count);
      sums[k] = part.sum[i] + count * shift;
      squares[k] = part.square[i] + shift * (2 * double{part.sum[i]} + count * shift);
    }
  }
  double error = 0, norm = 0;
  std::vector<double> want_sums(channels), want_squares(channels);
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t k = 0; k < channels; ++k) {
      for (std::int64_t i = 0; i < y.map.shape.height; ++i) {
        for (std::int64_t j = 0; j < y.map.shape.width; ++j) {
          double want = bias[k];
          for (std::int64_t c = 0; c < channels; ++c) {
            for (int tap = 0; tap < 9; ++tap)
              want += double{weights[(k * channels + c) * 9 + tap]} *
                      x.get(n, c, i * stride() + tap / 3 - 1, j * stride() + tap % 3 - 1);
          }
          error += std::pow(y.get(n, k, i, j) - want, 2);
          norm += want * want;
          const double stored = y.get(n, k, i, j);
          want_sums[static_cast<std::size_t>(k)] += stored;
          want_squares[static_cast<std::size_t>(k)] += stored * stored;
        }
      }
    }
  }
  EXPECT_LE(std::sqrt(error / norm), tolerance());
  const double largest = *std::ranges::max_element(want_squares);
  for (std::size_t k = 0; k < sums.size(); ++k) {
    EXPECT_NEAR(sums[k], want_sums[k], 1e-5 * largest) << k;
    EXPECT_NEAR(squares[k], want_squares[k], 1e-5 * largest) << k;
  }
}

TEST_P(WinogradKernels, InputGradientEqualsDirectConvolution) {
  y.fill(random);
  const Tiling tiling = tiling_of(y.map);
  const Kernels kernels{.data = weights.data(),
                        .depth = channels,
                        .depth_stride = channels * 9,
                        .lane_stride = 9,
                        .rotated = true};
  const Storage gradient(tiling.count, panel_count(), lanes(), is_strided()),
      u(channels, 1, lanes()), m(tiling.count, 1, lanes(), is_strided());
  (is_strided() ? strided::transform_gradient_patch : winograd::transform_input)(
      y.map, tiling, {0, tiling.count}, gradient.panels, 0);
  for (std::int64_t panel = 0; panel < panel_count(); ++panel) {
    transform_weights(kernels, panel, u.panels);
    for (std::int64_t f = 0; f < frequencies; ++f)
      multiply(gradient.panels, 0, u.panels, m.panels, tiling.count, f);
    (is_strided() ? strided::transform_input_gradient : winograd::transform_output)(
        m.panels, 0, x.map, tiling, {0, tiling.count}, panel, nullptr, nullptr);
  }
  double error = 0, norm = 0;
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t i = 0; i < x.map.shape.height; ++i) {
        for (std::int64_t j = 0; j < x.map.shape.width; ++j) {
          double want = 0;
          for (int tap = 0; tap < 9; ++tap) {
            const std::int64_t row = i + 1 - tap / 3, column = j + 1 - tap % 3;
            if (row % stride() != 0 || column % stride() != 0) continue;
            for (std::int64_t k = 0; k < channels; ++k)
              want += double{weights[(k * channels + c) * 9 + tap]} *
                      y.get(n, k, row / stride(), column / stride());
          }
          error += std::pow(x.get(n, c, i, j) - want, 2);
          norm += want * want;
        }
      }
    }
  }
  EXPECT_LE(std::sqrt(error / norm), tolerance());
}

TEST_P(WinogradKernels, WeightGradientEqualsDirectConvolutionAndAccumulates) {
  y.fill(random);
  const Tiling tiling = tiling_of(y.map);
  std::vector<float> gradient(weights.size(), 0.5f), sums(channels);
  const Kernels kernels{
      .data = gradient.data(), .depth = channels, .depth_stride = channels * 9, .lane_stride = 9};
  const Storage input(tiling.count, panel_count(), lanes(), is_strided()),
      output(tiling.count, panel_count(), lanes(), is_strided()), d(channels, 1, lanes());
  transform_input(tiling, input.panels);
  (is_strided() ? strided::transform_gradient : winograd::transform_gradient)(
      y.map, tiling, {0, tiling.count}, output.panels, 0, sums.data());
  const std::int64_t panel_size = panel_lanes(lanes());
  for (std::int64_t panel = 0; panel < panel_count(); ++panel) {
    for (std::int64_t f = 0; f < frequencies; ++f) {
      for (std::int64_t k = 0; k < panel_count(); ++k)
        multiply_transposed(output.panels, k, input.panels, panel, d.panels, k * panel_size,
                            tiling.count, f);
    }
    (is_strided() ? strided::transform_weight_gradient : winograd::transform_weight_gradient)(
        d.panels, kernels, 0, panel, true);
  }
  double error = 0, norm = 0;
  for (std::int64_t k = 0; k < channels; ++k) {
    double all = 0;
    for (std::int64_t n = 0; n < images; ++n) {
      for (std::int64_t i = 0; i < y.map.shape.height; ++i) {
        for (std::int64_t j = 0; j < y.map.shape.width; ++j) all += y.get(n, k, i, j);
      }
    }
    EXPECT_NEAR(sums[k], all, 1e-4);
    for (std::int64_t c = 0; c < channels; ++c) {
      for (int tap = 0; tap < 9; ++tap) {
        double want = 0.5;
        for (std::int64_t n = 0; n < images; ++n) {
          for (std::int64_t i = 0; i < y.map.shape.height; ++i) {
            for (std::int64_t j = 0; j < y.map.shape.width; ++j)
              want += double{y.get(n, k, i, j)} *
                      x.get(n, c, i * stride() + tap / 3 - 1, j * stride() + tap % 3 - 1);
          }
        }
        error += std::pow(gradient[(k * channels + c) * 9 + tap] - want, 2);
        norm += want * want;
      }
    }
  }
  EXPECT_LE(std::sqrt(error / norm), 5e-6);
}

TEST_P(WinogradKernels, NotANumberStays) {
  const Tiling tiling = tiling_of(y.map);
  const Kernels kernels{
      .data = weights.data(), .depth = channels, .depth_stride = 9, .lane_stride = channels * 9};
  weights[0] = std::nanf("");
  const Storage input(tiling.count, panel_count(), lanes(), is_strided()), u(channels, 1, lanes()),
      m(tiling.count, 1, lanes(), is_strided());
  transform_input(tiling, input.panels);
  transform_weights(kernels, 0, u.panels);
  for (std::int64_t f = 0; f < frequencies; ++f)
    multiply(input.panels, 0, u.panels, m.panels, tiling.count, f);
  transform_output(m.panels, 0, {0, tiling.count}, 0, nullptr, nullptr);
  EXPECT_TRUE(std::isnan(y.get(0, 0, 1, 1)));
  EXPECT_FALSE(std::isnan(y.get(0, 1, 1, 1)));
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DataType type : {DataType::float32, DataType::bfloat16}) {
    for (const auto& [height, width, stride] :
         {std::tuple{4, 4, 1}, {13, 6, 1}, {8, 8, 2}, {19, 6, 2}}) {
      all.push_back({8, MapLayout::blocked8, type, height, width, stride});
      all.push_back({8, MapLayout::blocked16, type, height, width, stride});
      all.push_back({16, MapLayout::blocked16, type, height, width, stride});
      all.push_back({16, MapLayout::channels_last, type, height, width, stride});
    }
  }
  return all;
}

std::string case_name(const testing::TestParamInfo<Case>& test) {
  const Case& c = test.param;
  const char* layouts[] = {"planar", "blocked8", "blocked16", "channels_last"};
  return fmt::format("{}_lanes_{}_{}_{}x{}_stride_{}", c.lanes, layouts[static_cast<int>(c.layout)],
                     core::name(c.type), c.height, c.width, c.stride);
}

INSTANTIATE_TEST_SUITE_P(Cases, WinogradKernels, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace lockstep::backend::cpu::winograd
