// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/optim/update.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <vector>

#include "lockstep/core/random.hpp"

namespace lockstep::optim {
namespace {

// Sums of two parameters' gradients over four replicas, and the gradients after
// torch.nn.utils.clip_grad_norm_(parameters, max_norm) of their means, computed by PyTorch 2 in
// float32, which rounds the norm (relative error 2^-24).
constexpr std::array sums{3.0F, -4.0F, 0.5F, 1.25F, 12.0F, -0.75F, 2.0F};
struct Golden {
  double max_norm;
  std::array<float, 7> clipped;
};
constexpr std::array golden{
    Golden{2.5,
           {0.566340029F, -0.755120039F, 0.0943900049F, 0.235975012F, 2.26536012F, -0.141585007F,
            0.377560019F}},
    Golden{13.0, {0.75F, -1.0F, 0.125F, 0.3125F, 3.0F, -0.1875F, 0.5F}},
    Golden{1e-7,
           {2.26536017e-08F, -3.02048022e-08F, 3.77560028e-09F, 9.43900069e-09F, 9.06144066e-08F,
            -5.66340042e-09F, 1.51024011e-08F}},
};

TEST(GradientClipping, GivesTheGradientsOfPyTorch) {
  constexpr float mean = 0.25F;
  for (const Golden& expected : golden) {
    const float factor = clipping_factor(expected.max_norm, mean, sums);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      EXPECT_NEAR(factor * mean * sums[i], expected.clipped[i],
                  3e-7 * std::abs(expected.clipped[i]))
          << expected.max_norm;
    }
  }
}

TEST(GradientClipping, LeavesSmallGradientsUnchanged) {
  EXPECT_EQ(clipping_factor(13.0, 0.25F, sums), 1.0F);
  EXPECT_EQ(clipping_factor(1.0, 1.0F, std::vector<float>(9)), 1.0F);
  EXPECT_EQ(clipping_factor(1.0, 1.0F, {}), 1.0F);
}

// Replicas may have different numbers of threads and must stay equal.
TEST(GradientClipping, DoesNotDependOnTheNumberOfThreads) {
  core::Random random(3, core::RandomStream::test);
  std::vector<float> gradients(1'000'003);
  for (float& gradient : gradients) gradient = random.normal();
  const int before = omp_get_max_threads();
  std::vector<float> factors;
  for (const int threads : {1, 2, 3, 5}) {
    omp_set_num_threads(threads);
    factors.push_back(clipping_factor(1.0, 1.0F, gradients));
  }
  omp_set_num_threads(before);
  EXPECT_NEAR(factors[0], 1e-3, 1e-5);  // the norm of n standard normal values is about sqrt(n)
  for (const float factor : factors) EXPECT_EQ(factor, factors[0]);
}

}  // namespace
}  // namespace lockstep::optim
