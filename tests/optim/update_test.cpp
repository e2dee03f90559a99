// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/optim/update.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <string>
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

/// Parameters and moments of an optimiser.
template <class T>
struct State {
  explicit State(const std::vector<float>& initial)
      : parameters(initial.begin(), initial.end()),
        momentum(initial.size()),
        second_moment(initial.size()) {}

  std::vector<T> parameters, momentum, second_moment;
};

Values values_of(State<float>& state, const std::vector<float>& gradients) {
  return {state.parameters, gradients, state.momentum, state.second_moment};
}

double norm(const auto& values, const ParameterRange& range) {
  double squares = 0;
  for (std::size_t i = range.begin; i < range.end; ++i)
    squares += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return std::sqrt(squares);
}

/// Reference implementations in float64 of the updates of one parameter.

/// torch.optim.SGD as documented by PyTorch (dampening 0).
void sgd(const Coefficients& c, double g, double decay, State<double>& state, std::size_t i) {
  g += decay * state.parameters[i];
  double& v = state.momentum[i];
  v = double{c.momentum} * v + g;
  g = c.nesterov ? g + double{c.momentum} * v : v;
  state.parameters[i] -= double{c.learning_rate} * g;
}

/// Algorithm 1 of You, Gitman, Ginsburg, 2017.
void lars(const Coefficients& c, double g, double decay, double rate, State<double>& state,
          std::size_t i) {
  double& v = state.momentum[i];
  v = double{c.momentum} * v + double{c.learning_rate} * rate * (g + decay * state.parameters[i]);
  state.parameters[i] -= v;
}

/// torch.optim.AdamW as documented by PyTorch.
void adamw(const Coefficients& c, double g, double decay, State<double>& state, std::size_t i) {
  const auto t = static_cast<double>(c.step);
  state.parameters[i] *= 1 - double{c.learning_rate} * decay;
  double& m = state.momentum[i];
  double& v = state.second_moment[i];
  m = 0.9 * m + (1 - 0.9) * g;
  v = 0.999 * v + (1 - 0.999) * g * g;
  const double mean = m / (1 - std::pow(0.9, t)), square = v / (1 - std::pow(0.999, t));
  state.parameters[i] -= double{c.learning_rate} * mean / (std::sqrt(square) + 1e-8);
}

void reference_step(Kind kind, const Coefficients& c, VectorDecay vector_decay,
                    const std::vector<ParameterRange>& ranges, const std::vector<float>& gradients,
                    State<double>& state) {
  for (const ParameterRange& range : ranges) {
    const bool decays = vector_decay == VectorDecay::on || !range.is_vector;
    const double decay = decays ? double{c.weight_decay} : 0;
    const double weight = norm(state.parameters, range);
    const double gradient = double{c.gradient_scale} * norm(gradients, range);
    const double rate = decays && weight > 0 && gradient > 0
                            ? double{c.trust} * weight / (gradient + decay * weight)
                            : 1;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const double g = double{c.gradient_scale} * double{gradients[i]};
      if (kind == Kind::sgd) sgd(c, g, decay, state, i);
      if (kind == Kind::lars) lars(c, g, decay, rate, state, i);
      if (kind == Kind::adamw) adamw(c, g, decay, state, i);
    }
  }
}

struct Case {
  std::string name;
  Kind kind = Kind::sgd;
  Coefficients coefficients{};
  VectorDecay vector_decay = VectorDecay::on;

  friend void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
};

const Case cases[]{
    {"sgd"},
    {"without_momentum", Kind::sgd, {.learning_rate = 0.01f, .momentum = 0, .weight_decay = 0}},
    {"nesterov", Kind::sgd, {.nesterov = true}},
    {"scaled_nesterov", Kind::sgd, {.nesterov = true, .gradient_scale = 0.25f}},
    {"scaled", Kind::sgd, {.weight_decay = 0.1f, .gradient_scale = 0.5f}},
    {"without_decay_of_vectors", Kind::sgd, {.weight_decay = 0.1f}, VectorDecay::off},
    {"lars", Kind::lars, {.learning_rate = 2}},
    {"scaled_lars", Kind::lars, {.weight_decay = 0.1f, .gradient_scale = 0.25f, .trust = 0.02f}},
    {"lars_without_vectors", Kind::lars, {.weight_decay = 0.1f}, VectorDecay::off},
    {"adamw", Kind::adamw, {.learning_rate = 0.01f, .weight_decay = 0.1f}},
    {"scaled_adamw", Kind::adamw, {.learning_rate = 0.01f, .gradient_scale = 0.25f}},
    {"adamw_without_vectors", Kind::adamw, {.weight_decay = 0.5f}, VectorDecay::off}};

class OptimiserTest : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(All, OptimiserTest, testing::ValuesIn(cases),
                         [](const auto& test) { return test.param.name; });

/// Parameters of several sizes, with gaps as in the flat buffers.
const std::vector<ParameterRange> ranges{
    {0, 1, true}, {16, 33, false}, {48, 80, true}, {80, 90'000, false}, {90'000, 90'003, true}};
constexpr std::size_t elements = 90'016;

std::vector<float> gradients_of(std::uint64_t step) {
  std::vector<float> gradients(elements);
  const std::vector<float> random = random_values(elements, step);
  for (const ParameterRange& range : ranges)
    for (std::size_t i = range.begin; i < range.end; ++i) gradients[i] = random[i];
  return gradients;
}

TEST_P(OptimiserTest, FollowsTheFormulaOverManySteps) {
  auto [name, kind, coefficients, vector_decay] = GetParam();
  State<float> state(gradients_of(0));
  State<double> expected(state.parameters);
  const Optimiser optimiser(kind, vector_decay, ranges);
  for (std::uint64_t step = 1; step <= 20; ++step) {
    const std::vector<float> gradients = gradients_of(step);
    coefficients.step = static_cast<std::int64_t>(step);
    optimiser.update(coefficients, values_of(state, gradients), 0, elements);
    reference_step(kind, coefficients, vector_decay, ranges, gradients, expected);
  }
  // 20 steps with about 6 roundings each (relative error 2^-24) of values up to 10 give an error
  // below 1e-4. A wrong term gives a much larger error.
  for (std::size_t i = 0; i < elements; ++i) {
    ASSERT_NEAR(state.parameters[i], expected.parameters[i], 1e-4) << i;
    ASSERT_NEAR(state.momentum[i], expected.momentum[i], 1e-4) << i;
    ASSERT_NEAR(state.second_moment[i], expected.second_moment[i], 1e-4) << i;
  }
}

TEST_P(OptimiserTest, IsTheSameInParts) {
  const auto [name, kind, coefficients, vector_decay] = GetParam();
  State<float> whole(gradients_of(0)), parts = whole;
  const std::vector<float> gradients = gradients_of(1);
  const Optimiser optimiser(kind, vector_decay, ranges);
  optimiser.update(coefficients, values_of(whole, gradients), 0, elements);
  // Two parts lie within one parameter, and a part ends where parameters end.
  std::size_t first = 0;
  for (const std::size_t end : {std::size_t{20}, std::size_t{80}, std::size_t{500},
                                std::size_t{70'000}, std::size_t{90'000}, elements}) {
    optimiser.update(coefficients, values_of(parts, gradients), first, end - first);
    first = end;
  }
  EXPECT_EQ(parts.parameters, whole.parameters);
  EXPECT_EQ(parts.momentum, whole.momentum);
  EXPECT_EQ(parts.second_moment, whole.second_moment);
}

TEST(Update, FirstStepStartsTheVelocityWithTheGradient) {
  std::vector<float> parameters{1.0f}, velocity{0.0f};
  const std::vector<float> gradients{2.0f};
  update(Kind::sgd, {.learning_rate = 0.5f, .momentum = 0.9f, .weight_decay = 0.25f},
         {parameters, gradients, velocity});
  EXPECT_EQ(velocity[0], 2.25f);
  EXPECT_EQ(parameters[0], 1.0f - 0.5f * 2.25f);
}

TEST(Update, ScaledSumOfGradientsIsTheirMean) {
  for (const Kind kind : {Kind::sgd, Kind::lars, Kind::adamw}) {
    State<float> from_sum(random_values(500, 0)), from_mean = from_sum;
    const std::vector<float> mean = random_values(500, 1);
    std::vector<float> sum = mean;
    for (float& value : sum) value *= 4;  // exact: 4 is a power of two
    update(kind, {.gradient_scale = 0.25f}, values_of(from_sum, sum));
    update(kind, {}, values_of(from_mean, mean));
    EXPECT_EQ(from_sum.parameters, from_mean.parameters);
    EXPECT_EQ(from_sum.momentum, from_mean.momentum);
  }
}

// The first step of AdamW is the learning rate, whatever the magnitude of the gradient.
TEST(Update, FirstStepOfAdamWIsTheLearningRate) {
  State<float> state({1.0f, 1.0f});
  update(Kind::adamw, {.learning_rate = 0.5f, .weight_decay = 0},
         values_of(state, {100.0f, -0.5f}));
  EXPECT_NEAR(state.parameters[0], 0.5f, 1e-6);
  EXPECT_NEAR(state.parameters[1], 1.5f, 1e-6);
}

TEST(LocalRate, IsOneIfANormIsZero) {
  const std::vector<float> zeros(3), ones(3, 1.0f);
  EXPECT_EQ(local_rate({}, zeros, ones), 1.0f);
  EXPECT_EQ(local_rate({}, ones, zeros), 1.0f);
  EXPECT_NEAR(local_rate({.weight_decay = 1, .gradient_scale = 3}, ones, ones), 0.001f / 4, 1e-9);
}

TEST(Update, EmptyBuffersAreFine) {
  for (const Kind kind : {Kind::sgd, Kind::lars, Kind::adamw}) {
    EXPECT_NO_THROW(update(kind, {}, {}));
    EXPECT_NO_THROW(Optimiser(kind, VectorDecay::off, {}).update({}, {}, 0, 0));
  }
}

TEST(Update, RefusesDifferentLengths) {
  std::vector<float> three(3), two(2);
  EXPECT_THROW(update(Kind::sgd, {}, {three, two, three}), core::Error);
  EXPECT_THROW(update(Kind::sgd, {}, {three, three, two}), core::Error);
  EXPECT_THROW(update(Kind::adamw, {}, {three, three, three}), core::Error);
}

}  // namespace
}  // namespace lockstep::optim
