#include "lockstep/optim/update.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::optim {
namespace {

std::vector<float> random_values(std::size_t size, std::uint64_t index) {
  core::Random random(7, core::RandomStream::test, index);
  std::vector<float> values(size);
  for (float& value : values) value = random.normal();
  return values;
}

struct Doubles {
  std::vector<double> parameters;
  std::vector<double> velocity;
};

// Reference implementation: torch.optim.SGD as documented by PyTorch (dampening 0), in float64.
void pytorch_step(const Sgd& sgd, const std::vector<float>& gradients, Doubles& state) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    double g = double{sgd.gradient_scale} * double{gradients[i]};
    g += double{sgd.weight_decay} * state.parameters[i];
    double& v = state.velocity[i];
    v = double{sgd.momentum} * v + g;
    g = sgd.nesterov ? g + double{sgd.momentum} * v : v;
    state.parameters[i] -= double{sgd.learning_rate} * g;
  }
}

struct Case {
  std::size_t size;
  Sgd sgd;
};

class SgdTest : public testing::TestWithParam<Case> {};

TEST_P(SgdTest, FollowsTheFormulaOverManySteps) {
  const auto [size, sgd] = GetParam();
  std::vector<float> parameters = random_values(size, 0);
  std::vector<float> velocity(size);
  Doubles expected{{parameters.begin(), parameters.end()}, std::vector<double>(size)};
  for (std::uint64_t step = 1; step <= 20; ++step) {
    const std::vector<float> gradients = random_values(size, step);
    update(sgd, parameters, gradients, velocity);
    pytorch_step(sgd, gradients, expected);
  }
  // 20 steps with about 6 roundings each (relative error 2^-24) of values up to 10 give an error
  // below 1e-4. A wrong term gives a much larger error.
  for (std::size_t i = 0; i < size; ++i) {
    ASSERT_NEAR(parameters[i], expected.parameters[i], 1e-4) << i;
    ASSERT_NEAR(velocity[i], expected.velocity[i], 1e-4) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, SgdTest,
    testing::Values(Case{1, {}}, Case{17, {}}, Case{100'003, {}},
                    Case{1003, {.learning_rate = 0.01f, .momentum = 0, .weight_decay = 0}},
                    Case{1003, {.nesterov = true}},
                    Case{1003, {.nesterov = true, .gradient_scale = 0.25f}},
                    Case{1003, {.weight_decay = 0.1f, .gradient_scale = 0.5f}}));

TEST(SgdTest, FirstStepStartsTheVelocityWithTheGradient) {
  std::vector<float> parameters{1.0f};
  std::vector<float> velocity{0.0f};
  const std::vector<float> gradients{2.0f};
  update({.learning_rate = 0.5f, .momentum = 0.9f, .weight_decay = 0.25f}, parameters, gradients,
         velocity);
  EXPECT_EQ(velocity[0], 2.25f);
  EXPECT_EQ(parameters[0], 1.0f - 0.5f * 2.25f);
}

TEST(SgdTest, ScaledSumOfGradientsIsTheirMean) {
  std::vector<float> from_sum = random_values(500, 0);
  std::vector<float> from_mean = from_sum;
  std::vector<float> velocity_of_sum(500);
  std::vector<float> velocity_of_mean(500);
  const std::vector<float> mean = random_values(500, 1);
  std::vector<float> sum = mean;
  for (float& value : sum) value *= 4;  // exact: 4 is a power of two
  update({.gradient_scale = 0.25f}, from_sum, sum, velocity_of_sum);
  update({}, from_mean, mean, velocity_of_mean);
  EXPECT_EQ(from_sum, from_mean);
  EXPECT_EQ(velocity_of_sum, velocity_of_mean);
}

TEST(SgdTest, EmptyBuffersAreFine) { EXPECT_NO_THROW(update({}, {}, {}, {})); }

TEST(SgdTest, RefusesDifferentLengths) {
  std::vector<float> three(3);
  std::vector<float> two(2);
  EXPECT_THROW(update({}, three, two, three), core::Error);
  EXPECT_THROW(update({}, three, three, two), core::Error);
}

}  // namespace
}  // namespace lockstep::optim
