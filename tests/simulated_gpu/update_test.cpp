// SPDX-License-Identifier: BSD-3-Clause
// Tests the update of the parameters on a simulated GPU: both forms of the gradients (native ones,
// and flat ones as after an all-reduce) lead to the same bits, and one rank does not convert its
// gradients to the flat form. Also tests the gradients of linear layers and the hash.

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "backend/parameters.hpp"
#include "backend/support.hpp"
#include "buffer_values.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::backend::test {
namespace {

using core::Precision;

graph::Graph network(const std::string& name) {
  for (Network& network : small_networks()) {
    if (network.name == name) return std::move(network.graph);
  }
  ADD_FAILURE() << "no network " << name;
  return graph::Graph(name);
}

using lockstep::test::copy;

/// State of a replica after two steps.
struct Outcome {
  std::vector<float> parameters, momentum, second_moment, gradients;
};

constexpr optim::Coefficients coefficients{.learning_rate = 0.1F,
                                           .momentum = 0.9F,
                                           .weight_decay = 1e-3F,
                                           .nesterov = true,
                                           .trust = 0.02F,
                                           .step = 3};

Outcome outcome_of(Replica& replica) {
  replica.backend->fetch(replica.state);
  return {copy(replica.state.parameters), copy(replica.state.momentum),
          copy(replica.state.second_moment), copy(replica.state.gradients)};
}

Outcome train(const graph::Graph& graph, PlanOptions options, GradientReduction reduction) {
  options.batch = 3;
  options.gradient_reduction = reduction;
  Replica replica(DeviceKind::cuda, 1, graph, options);
  replica.plan->set_coefficients(coefficients);
  for (const std::uint64_t seed : {1, 2}) {
    replica.step(random_batch(graph, 3, seed));
    replica.plan->update(0, graph.parameter_elements());
  }
  return outcome_of(replica);
}

struct Case {
  std::string name;
  PlanOptions options;

  friend void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
};

const Case cases[]{
    {"fp32", {}},
    {"fp32_clipped", {.max_gradient_norm = 0.1}},
    {"bf16", {.precision = Precision::bf16}},
    {"bf16_clipped", {.precision = Precision::bf16, .max_gradient_norm = 0.1}},
    {"fp16", {.precision = Precision::fp16, .loss_scale = 128}},
    {"fp16_clipped", {.precision = Precision::fp16, .loss_scale = 128, .max_gradient_norm = 0.1}},
    {"sgd_without_vectors", {.vector_decay = optim::VectorDecay::off}},
    {"lars", {.optimiser = optim::Kind::lars}},
    {"lars_bf16_without_vectors",
     {.precision = Precision::bf16,
      .optimiser = optim::Kind::lars,
      .vector_decay = optim::VectorDecay::off}},
    {"lars_fp16_clipped",
     {.precision = Precision::fp16,
      .loss_scale = 128,
      .max_gradient_norm = 0.1,
      .optimiser = optim::Kind::lars}},
    {"adamw", {.optimiser = optim::Kind::adamw}},
    {"adamw_bf16_clipped",
     {.precision = Precision::bf16, .max_gradient_norm = 0.1, .optimiser = optim::Kind::adamw}},
    {"adamw_fp16",
     {.precision = Precision::fp16,
      .loss_scale = 128,
      .optimiser = optim::Kind::adamw,
      .vector_decay = optim::VectorDecay::off}},
};

class Update : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Simulated, Update, testing::ValuesIn(cases),
                         [](const auto& test) { return test.param.name; });

// The flat gradients are float32, so the conversion is exact. The networks contain no batch norm,
// whose implementation is chosen by timing and therefore varies.
TEST_P(Update, ByNativeGradientsEqualsThatByFlatGradients) {
  for (const char* name : {"conv3x3_64_to_32_bias", "conv_on_many_channels", "perceptron"}) {
    SCOPED_TRACE(name);
    const graph::Graph graph = network(name);
    const Outcome flat = train(graph, GetParam().options, GradientReduction::over_replicas);
    const Outcome native = train(graph, GetParam().options, GradientReduction::none);
    EXPECT_EQ(native.gradients, flat.gradients);
    EXPECT_EQ(native.parameters, flat.parameters);
    EXPECT_EQ(native.momentum, flat.momentum);
    EXPECT_EQ(native.second_moment, flat.second_moment);
    EXPECT_GT(norm(native.gradients), 0);
    Replica initial(DeviceKind::cuda, 1, graph, {.batch = 3});
    EXPECT_NE(native.parameters, copy(initial.state.parameters));
  }
}

/// Updates the replica in `parts` calls, as bucket by bucket.
void update(Replica& replica, std::size_t elements, std::size_t portion) {
  for (std::size_t first = 0; first < elements; first += portion)
    replica.plan->update(first, std::min(portion, elements - first));
}

// The tolerance covers the rounding of float32, also of the sums of squares of norms.
TEST_P(Update, BucketByBucketEqualsThatOfTheReference) {
  const graph::Graph graph = network("conv_on_many_channels");
  const std::size_t elements = graph.parameter_elements(), portion = elements / 48 * 16;
  PlanOptions options = GetParam().options;
  options.batch = 3;
  options.gradient_reduction = GradientReduction::over_replicas;
  options.gradient_portion = portion;
  Replica gpu(DeviceKind::cuda, 1, graph, options);
  optim::Coefficients scaled = coefficients;
  gpu.plan->set_coefficients(scaled);
  gpu.step(random_batch(graph, 3, 1));

  const bool has_scale = std::exchange(options.precision, Precision::fp32) == Precision::fp16;
  Replica reference(DeviceKind::reference, 1, graph, options);
  std::ranges::copy(gpu.gradients(), reference.gradients().begin());
  if (has_scale) scaled.gradient_scale /= static_cast<float>(options.loss_scale);
  reference.plan->set_coefficients(scaled);

  update(gpu, elements, portion);
  update(reference, elements, portion);
  const Outcome got = outcome_of(gpu), want = outcome_of(reference);
  const Outcome before =
      outcome_of(*std::make_unique<Replica>(DeviceKind::reference, 1, graph, options));
  std::vector<float> change = want.parameters;
  for (std::size_t i = 0; i < change.size(); ++i) change[i] -= before.parameters[i];
  EXPECT_GT(norm(change), 0);
  EXPECT_LT(relative_error(got.parameters, want.parameters, norm(change)), 1e-5);
  EXPECT_LT(relative_error(got.momentum, want.momentum), 1e-5);
  if (options.optimiser == optim::Kind::adamw) {
    EXPECT_LT(relative_error(got.second_moment, want.second_moment), 1e-5);
  }
}

// PyTorch's GradScaler does not call the optimiser in a skipped step either. Counting it would
// make the first update 26 % smaller.
TEST(SkippedSteps, DoNotCountForTheBiasCorrectionOfAdamW) {
  const graph::Graph graph = network("conv3x3_bias");
  const PlanOptions options{.batch = 3,
                            .precision = Precision::fp16,
                            .gradient_reduction = GradientReduction::none,
                            .optimiser = optim::Kind::adamw};
  const auto update = [&](Replica& replica, std::int64_t step, const LossScale& scale) {
    replica.plan->loss_scaling()->set_loss_scale(scale);
    replica.plan->set_coefficients({.learning_rate = 0.1F, .weight_decay = 0, .step = step});
    replica.step(random_batch(graph, 3, 1));
    replica.plan->update(0, graph.parameter_elements());
    return replica.plan->loss_scaling()->loss_scale();
  };
  Replica once(DeviceKind::cuda, 1, graph, options), skipping(DeviceKind::cuda, 1, graph, options);
  EXPECT_EQ(update(once, 1, {.scale = 128}).skipped, 0);
  const LossScale after = update(skipping, 1, {.scale = 1e30F});
  EXPECT_EQ(after.skipped, 1);
  // A resumed run sets the saved value.
  update(skipping, 2, {.scale = 128, .skipped = after.skipped});
  const Outcome got = outcome_of(skipping), want = outcome_of(once);
  EXPECT_EQ(got.parameters, want.parameters);
  EXPECT_EQ(got.second_moment, want.second_moment);
}

TEST(NativeGradients, ThatOverflowSkipTheStep) {
  const graph::Graph graph = network("conv3x3_bias");
  const Replica initial(DeviceKind::cuda, 1, graph, {.batch = 3});
  for (const double max_norm : {0.0, 0.1}) {
    const PlanOptions options{
        .precision = Precision::fp16, .loss_scale = 1e30, .max_gradient_norm = max_norm};
    EXPECT_EQ(train(graph, options, GradientReduction::none).parameters,
              copy(initial.state.parameters));
  }
}

/// Number of kernels that a call enqueues.
template <class Call>
std::int64_t launches(const Call& call) {
  const std::int64_t before = simulated_gpu::counters().issued.kernel_launches;
  call();
  return simulated_gpu::counters().issued.kernel_launches - before;
}

std::int64_t launches_of_backward(const graph::Graph& graph, PlanOptions options) {
  options.batch = 3;
  Replica replica(DeviceKind::cuda, 1, graph, options);
  replica.upload(random_batch(graph, 3, 1));
  replica.plan->forward();
  core::NoGradientListener nobody;
  return launches([&] { replica.plan->backward(nobody); });
}

TEST(NativeGradients, AreConvertedOnlyIfTheyAreReduced) {
  const graph::Graph graph = network("conv3x3_bias");
  PlanOptions options{.precision = Precision::bf16, .gradient_reduction = GradientReduction::none};
  const std::int64_t unreduced = launches_of_backward(graph, options);
  options.gradient_reduction = GradientReduction::over_replicas;
  EXPECT_EQ(launches_of_backward(graph, options), unreduced + 1);
  options.gradient_portion = graph.parameter_elements() / 4;
  EXPECT_GT(launches_of_backward(graph, options), unreduced + 1);
}

TEST_P(Update, LaunchesOneKernelAndThoseOfNormsAndLossScaling) {
  const graph::Graph graph = network("conv3x3_bias");
  PlanOptions options = GetParam().options;
  options.batch = 3;
  Replica replica(DeviceKind::cuda, 1, graph, options);
  replica.step(random_batch(graph, 3, 1));
  const bool has_scale = options.precision == Precision::fp16;
  const bool is_clipped = options.max_gradient_norm > 0;
  EXPECT_EQ(launches([&] { replica.plan->update(0, graph.parameter_elements()); }),
            1 + (is_clipped || has_scale ? 2 : 0) +  // the norm also detects an overflow
                (has_scale ? 1 : 0) + (options.optimiser == optim::Kind::lars ? 2 : 0));
}

// From 32 images on, the gradient of a bias is summed in several slabs.
TEST(LinearGradients, OfSeveralSlabsEqualThoseOfTheReference) {
  const graph::Graph graph = network("perceptron");
  const std::int64_t images = 75;  // four slabs
  const Batch batch = random_batch(graph, images, 3);
  Replica reference(DeviceKind::reference, 1, graph, {.batch = images});
  Replica gpu(DeviceKind::cuda, 1, graph, {.batch = images});
  reference.step(batch);
  gpu.step(batch);
  for (const graph::Parameter& parameter : graph.parameters()) {
    EXPECT_LT(relative_error(gpu.gradients().subspan(parameter.offset, parameter.elements),
                             reference.gradients().subspan(parameter.offset, parameter.elements)),
              1e-5)
        << parameter.name;
  }
}

// The only convolution of the network is 1x1; the GPU stores the weights of others in another
// order.
TEST(ParameterHash, IsThatOfTheParametersAfterQueuedWork) {
  const graph::Graph graph = network("perceptron");
  Replica replica(DeviceKind::cuda, 1, graph, {.batch = 3});
  const auto hash = [&] { return replica.backend->parameter_hash(replica.state); };
  const auto hash_of_fetched = [&] {
    replica.backend->fetch(replica.state);
    return parameter_hash(replica.parameters());
  };
  const std::uint64_t before = hash();
  EXPECT_EQ(before, hash_of_fetched());
  replica.plan->set_coefficients({.learning_rate = 0.1F});
  replica.step(random_batch(graph, 3, 1));
  replica.plan->update(0, graph.parameter_elements());
  const std::uint64_t after = hash();
  EXPECT_NE(after, before);
  EXPECT_EQ(after, hash_of_fetched());
}

}  // namespace
}  // namespace lockstep::backend::test
