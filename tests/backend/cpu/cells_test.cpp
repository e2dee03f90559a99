// SPDX-License-Identifier: BSD-3-Clause
// Compares convolutions of cells with sums over the taps in float64, and the AMX tiles of the
// processor with the emulated ones. The cases include batch sizes and channel counts that are
// not multiples of 32, 1x1 and 3x3 kernels, strides, biases, one to eight threads, and patches of
// planar maps.
//
// Tolerances, as relative Euclidean norms. Maps are bfloat16, and the weights are values that
// bfloat16 represents exactly, so the products are exact.
//   - forward and backward data: 4e-3. The output is rounded to bfloat16, with a relative error of
//     at most 2^-8.
//   - backward weights: 1e-5. The gradients are float32 sums of at most 40,320 products; measured:
//     2e-6.
//   - Winograd's algorithm F(2x2, 3x3): 6e-3 in all directions. It also rounds transformed maps and
//     weights to bfloat16; measured: up to 3.9e-3, and 1.8e-3 for the direct algorithm.
//   - F(4x4, 3x3): 4e-3 in all directions. It rounds them to 16-bit integers; measured: up to
//     2.9e-3.
// The tiles of the processor and the emulated ones give bitwise identical results.

#include "backend/cpu/cells/convolution.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

#include "backend/cpu/cells/kernels.hpp"
#include "backend/cpu/fused_statistics.hpp"
#include "cells_cases.hpp"
#include "cells_problem.hpp"

namespace lockstep::backend::cpu::cells {
namespace {

/// The other operations require that the channels that only pad a map are 0.
void expect_no_values_in_padding(const Map& map) {
  double sum = 0;
  for (const double value : map.values()) sum += std::fabs(value);
  EXPECT_NEAR(map.sum_of_magnitudes(), sum, 1e-9 * sum);
}

/// Compares the statistics with the sums of the stored values (..., channel). The tolerance of
/// 1e-5, relative to the largest possible sums, is for the partial sums in float32; measured: 2e-6.
void expect_sums(const std::vector<double>& values, const FusedStatistics& statistics) {
  const std::size_t channels = statistics.sum.size();
  for (std::size_t k = 0; k < channels; ++k) {
    double sum = 0, square = 0;
    for (std::size_t i = k; i < values.size(); i += channels) {
      sum += values[i];
      square += values[i] * values[i];
    }
    const double largest = std::sqrt(static_cast<double>(values.size() / channels) * square);
    EXPECT_NEAR(statistics.sum[k], sum, 1e-5 * largest) << "channel " << k;
    EXPECT_NEAR(statistics.square[k], square, 1e-5 * square) << "channel " << k;
  }
}

/// Compares the directions that the algorithm supports.
void expect_direct_sums(const Case& c, const Kernels& kernels,
                        Algorithm algorithm = Algorithm::direct) {
  SCOPED_TRACE(testing::PrintToString(c));
  const Problem inputs(c);
  const auto source = inputs.source.values(), gradient = inputs.destination.values();
  std::vector<double> forward(gradient.size()), backward(source.size()),
      weights(inputs.weights.size()), bias(inputs.bias.size());
  for (std::size_t i = 0; i < forward.size() && c.has_bias; ++i) {
    forward[i] = inputs.bias[i % bias.size()];
    bias[i % bias.size()] += gradient[i];
  }
  inputs.for_each_product([&](std::size_t from, std::size_t to, std::size_t weight) {
    forward[to] += source[from] * inputs.weights[weight];
    backward[from] += gradient[to] * inputs.weights[weight];
    weights[weight] += source[from] * gradient[to];
  });
  const bool is_direct = algorithm == Algorithm::direct;
  const double tolerance = algorithm == Algorithm::winograd ? 6e-3 : 4e-3;
  Problem problem(c);
  const auto channels = static_cast<std::size_t>(c.out_channels);
  FusedStatistics statistics{.sum = std::vector<double>(channels, -1),
                             .square = std::vector<double>(channels, -1)};
  problem.run(Direction::forward, kernels, algorithm, &statistics);
  EXPECT_LT(distance(forward, problem.destination.values()), tolerance);
  expect_no_values_in_padding(problem.destination);
  expect_sums(problem.destination.values(), statistics);
  problem = Problem(c);
  if (problem.fits(Direction::backward_data, algorithm)) {
    problem.run(Direction::backward_data, kernels, algorithm);
    EXPECT_LT(distance(backward, problem.source.values()), tolerance);
    expect_no_values_in_padding(problem.source);
  }
  problem = Problem(c);
  problem.run(Direction::backward_weights, kernels, algorithm);
  EXPECT_LT(distance(weights, doubles(problem.weights)), is_direct ? 1e-5 : tolerance);
  if (c.has_bias) {
    EXPECT_LT(distance(bias, doubles(problem.bias)), 1e-5);
  }
}

/// The cases that a variant of Winograd's algorithm supports.
std::vector<Case> winograd_cases(Algorithm algorithm) {
  std::vector<Case> cases;
  for (const Case& c : small_cases()) {
    if (Problem(c).fits(Direction::forward, algorithm)) cases.push_back(c);
  }
  return cases;
}

/// Several bands of rows and several blocks of images, which are prefetched, too large for the
/// emulation. The output of the first and the last case is so large that it is written with
/// non-temporal stores.
constexpr Case large_cases[] = {{.images = 70,
                                 .in_channels = 64,
                                 .out_channels = 64,
                                 .height = 24,
                                 .width = 24,
                                 .kernel = 3,
                                 .stride = 1,
                                 .has_bias = true,
                                 .threads = 2},
                                {.images = 36,
                                 .in_channels = 64,
                                 .out_channels = 128,
                                 .height = 24,
                                 .width = 24,
                                 .kernel = 3,
                                 .stride = 2},
                                {.images = 70,
                                 .in_channels = 64,
                                 .out_channels = 128,
                                 .height = 24,
                                 .width = 24,
                                 .kernel = 3,
                                 .stride = 2,
                                 .threads = 2},
                                {.images = 70,
                                 .in_channels = 64,
                                 .out_channels = 64,
                                 .height = 24,
                                 .width = 24,
                                 .kernel = 1,
                                 .stride = 1,
                                 .has_bias = true}};

TEST(Cells, SupportTheMapsThatTheyDocument) {
  const auto fits = [](Case c, Direction direction) { return Problem(c).fits(direction); };
  Case c = in_place_cases[0];
  EXPECT_TRUE(fits(c, Direction::backward_data));
  c.source = MapLayout::planar;
  EXPECT_FALSE(fits(c, Direction::forward));
  c = patch_cases[0];
  EXPECT_TRUE(fits(c, Direction::forward));
  EXPECT_TRUE(fits(c, Direction::backward_weights));
  EXPECT_FALSE(fits(c, Direction::backward_data));
  c.source = MapLayout::channels_last;
  EXPECT_FALSE(fits(c, Direction::forward));
  c = in_place_cases[0];
  c.kernel = 5;
  EXPECT_FALSE(fits(c, Direction::forward));
  c = in_place_cases[0];
  c.out_channels = 15;
  EXPECT_FALSE(fits(c, Direction::forward));
}

TEST(Winograd, SupportsTheConvolutionsThatItDocuments) {
  const auto fits = [](const Case& c) {
    return Problem(c).fits(Direction::forward, Algorithm::winograd);
  };
  const Case c = in_place_cases[0];
  EXPECT_TRUE(fits(c));
  Case other = c;
  other.kernel = 1;
  EXPECT_FALSE(fits(other));
  other = c;
  other.stride = 2;
  EXPECT_FALSE(fits(other));
  other = c;
  other.padding = 0;
  EXPECT_FALSE(fits(other));
  EXPECT_FALSE(fits(patch_cases[0]));
  EXPECT_GT(winograd_cases(Algorithm::winograd).size(), 8U);
  EXPECT_GT(winograd_cases(Algorithm::int16).size(), 11U);
}

struct Instructions {
  const char* name;
  std::unique_ptr<Kernels> (*make_kernels)();
  bool is_slow;
  friend void PrintTo(const Instructions& instructions, std::ostream* out) {
    *out << instructions.name;
  }
};

class CellConvolutions : public testing::TestWithParam<Instructions> {
 protected:
  void SetUp() override {
    kernels_ = GetParam().make_kernels();
    if (kernels_ == nullptr) GTEST_SKIP() << "this processor has no " << GetParam().name;
  }
  std::unique_ptr<Kernels> kernels_;
};

TEST_P(CellConvolutions, MatchDirectSums) {
  for (const Case& c : small_cases()) expect_direct_sums(c, *kernels_);
  if (GetParam().is_slow) return;
  for (const Case& c : large_cases) expect_direct_sums(c, *kernels_);
}

TEST_P(CellConvolutions, ByWinogradsAlgorithmsMatchDirectSums) {
  for (const Algorithm algorithm : {Algorithm::winograd, Algorithm::int16}) {
    for (const Case& c : winograd_cases(algorithm)) expect_direct_sums(c, *kernels_, algorithm);
    if (GetParam().is_slow) continue;
    for (const Case& c : large_cases) {
      if (Problem(c).fits(Direction::forward, algorithm))
        expect_direct_sums(c, *kernels_, algorithm);
    }
  }
}

// If the processor has fewer cores, or the environment limits the threads, OpenMP may start fewer
// threads than a direction requests.
TEST_P(CellConvolutions, AreCorrectWithFewerThreadsThanRequested) {
  const int is_dynamic = omp_get_dynamic();
  omp_set_dynamic(1);
  Case c = in_place_cases[0];
  c.has_bias = true;
  c.threads = 64;  // more than OpenMP starts if it may adjust the number
  for (const auto algorithm : {Algorithm::direct, Algorithm::winograd, Algorithm::int16})
    expect_direct_sums(c, *kernels_, algorithm);
  omp_set_dynamic(is_dynamic);
}

INSTANTIATE_TEST_SUITE_P(Instructions, CellConvolutions,
                         testing::Values(Instructions{"emulation", make_emulated_kernels, true},
                                         Instructions{"AMX", make_amx_kernels, false},
                                         Instructions{"AVX512_BF16", make_avx512_kernels, false}),
                         [](const auto& test) { return test.param.name; });

// Since both give the same bits, the tests of the emulation, which run on any machine, also test
// the arithmetic of processors with AMX.
TEST(AmxConvolutions, MatchTheEmulationBitwise) {
  const auto hardware = make_amx_kernels();
  if (hardware == nullptr) GTEST_SKIP() << "this processor has no AMX";
  const auto emulated = make_emulated_kernels();
  std::vector<std::pair<Direction, Algorithm>> all_directions;
  for (const auto direction :
       {Direction::forward, Direction::backward_data, Direction::backward_weights}) {
    for (const auto algorithm : {Algorithm::direct, Algorithm::winograd})
      all_directions.emplace_back(direction, algorithm);
  }
  for (const Case& c : small_cases()) {
    SCOPED_TRACE(testing::PrintToString(c));
    for (const auto& [direction, algorithm] : all_directions) {
      SCOPED_TRACE(name(direction));
      Problem one(c), other(c);
      if (!one.fits(direction, algorithm)) continue;
      // Values whose sums depend on the order of summation.
      for (Problem* problem : {&one, &other})
        for (float& weight : problem->weights) weight *= 1.2345678F;
      one.run(direction, *hardware, algorithm);
      other.run(direction, *emulated, algorithm);
      EXPECT_EQ(one.source.values(), other.source.values());
      EXPECT_EQ(one.destination.values(), other.destination.values());
      EXPECT_EQ(one.weights, other.weights);
      EXPECT_EQ(one.bias, other.bias);
    }
  }
}

}  // namespace
}  // namespace lockstep::backend::cpu::cells
