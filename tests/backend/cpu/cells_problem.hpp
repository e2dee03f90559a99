// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "backend/cpu/cells/convolution.hpp"
#include "backend/cpu/cells/kernels.hpp"
#include "backend/cpu/fused_statistics.hpp"
#include "cells_cases.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/random.hpp"

// Maps and convolutions for the tests of `cells`.

namespace lockstep::backend::cpu::cells {

enum class Algorithm { direct, winograd, int16 };

inline WinogradVariant variant_of(Algorithm algorithm) {
  return algorithm == Algorithm::winograd ? WinogradVariant::bfloat16 : WinogradVariant::int16;
}

inline float value(core::Random& random) {
  return static_cast<float>(static_cast<int>(random.below(256)) - 128) / 128;
}

/// A map in any layout. Values are numbered in the order (image, row, column, channel). The memory
/// after them is NaN, so that a test fails if its values have an effect.
class Map {
 public:
  Map(std::int64_t images, core::ImageShape shape, MapLayout layout)
      : map{images, shape, core::DataType::bfloat16, layout, nullptr}, bytes_(map.bytes()) {
    map.data = bytes_.data();
    const std::size_t end = map.elements() * sizeof(core::BFloat16);
    std::memset(map.data + end, 0xff, map.bytes() - end);
  }
  void fill(core::Random& random) {
    for_each_value([&](core::BFloat16& at) { at = core::to_bfloat16(value(random)); });
  }
  std::size_t at(std::int64_t image, std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>(((image * map.shape.height + row) * map.shape.width + column) *
                                    map.shape.channels);
  }
  std::vector<double> values() const {
    std::vector<double> all;
    for_each_value([&](core::BFloat16 at) { all.push_back(core::to_float(at)); });
    return all;
  }
  /// Returns the sum of the magnitudes of all elements, including padding.
  double sum_of_magnitudes() const {
    double sum = 0;
    for (std::size_t i = 0; i < map.elements(); ++i)
      sum += std::fabs(core::to_float(map.as<core::BFloat16>()[i]));
    return sum;
  }

  FeatureMap map;

 private:
  template <class Work>
  void for_each_value(Work&& work) const {
    for (std::int64_t image = 0; image < map.images; ++image)
      for (std::int64_t pixel = 0; pixel < map.shape.pixels(); ++pixel)
        for (std::int64_t channel = 0; channel < map.shape.channels; ++channel)
          work(map.as<core::BFloat16>()[map.index(image, channel, pixel)]);
  }

  core::Buffer bytes_;
};

/// Sizes and memory of one convolution.
struct Problem {
  explicit Problem(const Case& c)
      : sizes(c.sizes()),
        threads(c.threads),
        cached_bytes(c.cached_bytes),
        source(c.images, {c.in_channels, c.height, c.width}, c.source),
        destination(c.images, {c.out_channels, sizes.out_height, sizes.out_width}, c.destination),
        weights(static_cast<std::size_t>(c.in_channels * c.out_channels * c.kernel * c.kernel)),
        bias(static_cast<std::size_t>(c.has_bias ? c.out_channels : 0)) {
    core::Random random(17, core::RandomStream::test);
    source.fill(random);
    destination.fill(random);
    for (float& weight : weights) weight = value(random);
    for (float& b : bias) b = value(random);
  }

  bool fits(Direction direction, Algorithm algorithm = Algorithm::direct) const {
    const ConvolutionProblem problem{direction, sizes, source.map, destination.map};
    return algorithm == Algorithm::direct ? cells::fits(problem)
                                          : winograd_fits(problem, variant_of(algorithm));
  }

  /// Also computes `statistics` of the output, if it is not null.
  void run(Direction direction, const Kernels& kernels, Algorithm algorithm = Algorithm::direct,
           FusedStatistics* statistics = nullptr) {
    ASSERT_TRUE(fits(direction, algorithm));
    const ConvolutionProblem problem{direction, sizes, source.map, destination.map};
    const Resources resources{
        .kernels = &kernels, .threads = threads, .cached_bytes = cached_bytes};
    const auto made = algorithm == Algorithm::direct
                          ? make(problem, resources)
                          : make_winograd(problem, resources, variant_of(algorithm));
    if (statistics != nullptr) {
      ASSERT_TRUE(made->compute_statistics(*statistics));
    }
    core::Buffer workspace(made->workspace_bytes());
    std::memset(workspace.data(), 0xff, workspace.bytes());  // NaN, to detect reads before writes
    made->bind(workspace.data(), weights.data(),
               sizes.has_bias && direction != Direction::backward_data ? bias.data() : nullptr);
    made->run();
  }

  /// Calls work(source index, destination index, weight index) for every product.
  template <class Work>
  void for_each_product(Work&& work) const {
    const std::int64_t in = sizes.in_channels, taps = sizes.kernel * sizes.kernel;
    for (std::int64_t n = 0; n < sizes.images; ++n)
      for (std::int64_t y = 0; y < sizes.out_height; ++y)
        for (std::int64_t x = 0; x < sizes.out_width; ++x)
          for (std::int64_t r = 0; r < sizes.kernel; ++r)
            for (std::int64_t s = 0; s < sizes.kernel; ++s) {
              const std::int64_t row = y * sizes.stride - sizes.padding + r;
              const std::int64_t column = x * sizes.stride - sizes.padding + s;
              if (row < 0 || column < 0 || row >= sizes.in_height || column >= sizes.in_width)
                continue;
              const std::size_t from = source.at(n, row, column), to = destination.at(n, y, x);
              for (std::int64_t k = 0; k < sizes.out_channels; ++k)
                for (std::int64_t c = 0; c < in; ++c)
                  work(from + static_cast<std::size_t>(c), to + static_cast<std::size_t>(k),
                       static_cast<std::size_t>((k * in + c) * taps + r * sizes.kernel + s));
            }
  }

  ConvolutionSizes sizes;
  int threads;
  std::int64_t cached_bytes;
  Map source, destination;
  std::vector<float> weights, bias;
};

inline double distance(const std::vector<double>& expected, const std::vector<double>& actual) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (expected[i] - actual[i]) * (expected[i] - actual[i]);
    norm += expected[i] * expected[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

inline std::vector<double> doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

}  // namespace lockstep::backend::cpu::cells
