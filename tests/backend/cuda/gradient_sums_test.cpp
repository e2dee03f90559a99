// SPDX-License-Identifier: BSD-3-Clause
// Tests the arithmetic of the CUDA kernels that sum gradients of several backward passes.

#include "backend/cuda/kernels/elementwise.hpp"

#include "kernels.hpp"

namespace lockstep::backend::cuda::kernels::test {
namespace {

template <class T>
class CudaGradientSums : public ::testing::Test {};
TYPED_TEST_SUITE(CudaGradientSums, ActivationTypes, ActivationTypeNames);

TYPED_TEST(CudaGradientSums, AreExactSumsOfRoundedGradients) {
  constexpr std::int64_t elements = 37;
  const auto first = random_values<TypeParam>(elements, 61);
  const auto second = random_values<TypeParam>(elements, 62);
  std::vector<float> sums(elements);
  run_on_host(AddGradientsToSums<TypeParam>{first.data(), sums.data(), elements});
  run_on_host(AddGradientsToSums<TypeParam>{second.data(), sums.data(), elements});
  for (std::size_t i = 0; i < sums.size(); ++i)
    EXPECT_EQ(sums[i], widen(first[i]) + widen(second[i])) << i;
}

// A range may begin at any element, because the gradients of small parameters are final early.
TYPED_TEST(CudaGradientSums, AreAddedToARangeOfTheGradientsAndRoundedOnce) {
  const auto sums = random_values<float>(37, 63);
  const auto before = random_values<TypeParam>(37, 64);
  auto gradients = before;
  run_on_host(AddSumsToGradients<TypeParam>{sums.data() + 5, gradients.data() + 5, 20});
  auto want = before;
  for (std::size_t i = 5; i < 25; ++i) narrow(widen(before[i]) + sums[i], want[i]);
  expect_same_bits(gradients, want);
}

}  // namespace
}  // namespace lockstep::backend::cuda::kernels::test
