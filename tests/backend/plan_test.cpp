// SPDX-License-Identifier: BSD-3-Clause
// Tests the guarantees of plans other than the values they compute, for each device and precision.

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <map>

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <mutex>
#include <thread>
#include <vector>

#include "backend/agreement.hpp"
#include "expect_error.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::test {
namespace {

using core::Precision;

struct PlanDevice {
  DeviceKind kind;
  Precision precision;
  double tolerance;  ///< relative difference between sums in different orders

  friend void PrintTo(const PlanDevice& device, std::ostream* out) {
    *out << core::name(device.kind) << ' ' << core::name(device.precision);
  }
};

class PlanContract : public testing::TestWithParam<PlanDevice> {
 protected:
  PlanOptions options(std::int64_t batch, Mode mode = Mode::training) const {
    return {.batch = batch, .precision = GetParam().precision, .mode = mode};
  }
  std::vector<float> copy(std::span<const float> values) const {
    return {values.begin(), values.end()};
  }
};

graph::Graph network(const std::string& name) {
  for (Network& network : small_networks()) {
    if (network.name == name) return std::move(network.graph);
  }
  ADD_FAILURE() << "no network " << name;
  return graph::Graph(name);
}

/// Copies each part of the gradients when the plan reports it as final.
class Announcements : public core::GradientListener {
 public:
  explicit Announcements(std::span<const float> gradients) : gradients_(gradients) {}

  void gradients_ready(std::size_t elements) override {
    ASSERT_GE(elements, copy_.size()) << "what is final stays final";
    ASSERT_LE(elements, gradients_.size());
    copy_.insert(copy_.end(), gradients_.begin() + static_cast<std::ptrdiff_t>(copy_.size()),
                 gradients_.begin() + static_cast<std::ptrdiff_t>(elements));
    ++calls;
    steps += elements > last_ ? 1 : 0;
    last_ = elements;
  }

  int calls = 0;
  int steps = 0;  ///< calls in which further elements became final
  std::span<const float> copy() const { return copy_; }

 private:
  std::span<const float> gradients_;
  std::vector<float> copy_;
  std::size_t last_ = 0;
};

TEST_P(PlanContract, GradientsAreFinalOnceAnnounced) {
  for (const char* name : {"block_strided", "three_consumers", "conv_bias_bn_relu_pool"}) {
    SCOPED_TRACE(name);
    const graph::Graph graph = network(name);
    Replica replica(GetParam().kind, 1, graph, options(2));
    std::ranges::fill(replica.gradients(), 1e9f);  // values that a previous step may have left
    replica.upload(random_batch(graph, 2, 1));
    replica.plan->forward();
    Announcements announcements(replica.gradients());
    replica.plan->backward(announcements);
    ASSERT_EQ(announcements.copy().size(), graph.parameter_elements());
    for (const graph::Parameter& parameter : graph.parameters()) {
      const auto announced = announcements.copy().subspan(parameter.offset, parameter.elements);
      const auto at_the_end = replica.gradients().subspan(parameter.offset, parameter.elements);
      EXPECT_TRUE(std::ranges::equal(announced, at_the_end)) << parameter.name;
    }
    // Nearly every layer reports its gradients, so communication can overlap with the backward
    // pass.
    EXPECT_GE(announcements.steps, 3);
    EXPECT_GE(announcements.calls, announcements.steps);
  }
}

TEST_P(PlanContract, AnotherStepOnTheSameBatchGivesTheSameBits) {
  const graph::Graph graph = network("block_strided");
  const Batch first = random_batch(graph, 5, 1);
  const Batch second = random_batch(graph, 5, 2);
  Replica fresh(GetParam().kind, 2, graph, options(5));
  fresh.step(second);
  Replica used(GetParam().kind, 2, graph, options(5));
  used.step(first);
  used.step(second);
  EXPECT_EQ(copy(used.gradients()), copy(fresh.gradients()));
  EXPECT_EQ(copy(used.plan->logits()), copy(fresh.plan->logits()));
  EXPECT_EQ(used.plan->result().loss_sum, fresh.plan->result().loss_sum);
  EXPECT_EQ(used.state.batches_tracked, 2);
}

TEST_P(PlanContract, NewParametersAreUsedAtTheNextStep) {
  const graph::Graph graph = network("conv_bias_bn_relu_pool");
  const Batch images = random_batch(graph, 2, 1);
  Replica fresh(GetParam().kind, 1, graph, options(2), 9);
  fresh.step(images);
  Replica used(GetParam().kind, 1, graph, options(2), 1);
  used.step(images);
  std::ranges::copy(fresh.parameters(), used.parameters().begin());
  used.step(images);
  EXPECT_EQ(copy(used.gradients()), copy(fresh.gradients()));
}

TEST_P(PlanContract, PartialBatchesOfInferenceDependOnlyOnTheirImages) {
  const graph::Graph graph = network("block_projected");
  const Batch images = random_batch(graph, 5, 3);
  Replica replica(GetParam().kind, 1, graph, options(5, Mode::inference));
  replica.upload(images);
  replica.plan->forward();
  const auto all = copy(replica.plan->logits());
  replica.upload(part(graph, images, 0, 3));
  replica.plan->forward();
  const auto some = static_cast<std::size_t>(3 * graph.classes());
  ASSERT_GE(replica.plan->logits().size(), some);
  EXPECT_EQ(copy(replica.plan->logits().first(some)), copy(std::span(all).first(some)));
  EXPECT_EQ(replica.plan->result().images, 3);
}

TEST_P(PlanContract, InferenceAndTrainingShareOneState) {
  const graph::Graph graph = network("bn_relu");
  const Batch images = random_batch(graph, 2, 3);
  Replica replica(GetParam().kind, 1, graph, options(2));
  const auto inference =
      replica.backend->compile(graph, replica.state, options(2, Mode::inference));
  const auto scores = [&] {
    inference->upload(images.images, images.labels);
    inference->forward();
    return copy(inference->logits());
  };
  const auto before = scores();
  EXPECT_EQ(scores(), before) << "inference moves nothing";
  replica.step(images);
  EXPECT_NE(scores(), before) << "a training step moves the running statistics";
}

TEST_P(PlanContract, MemoryIsSaidBeforehand) {
  const graph::Graph graph = network("block");
  for (const Mode mode : {Mode::training, Mode::inference}) {
    PlanOptions some = options(5, mode);
    some.optimiser = mode == Mode::training ? optim::Kind::adamw : optim::Kind::sgd;
    Replica replica(GetParam().kind, 1, graph, some);
    const MemoryUse said = replica.backend->memory(graph, some);
    const MemoryUse taken = replica.plan->memory();
    EXPECT_EQ(said.state, taken.state);
    EXPECT_EQ(said.activations, taken.activations);
    EXPECT_EQ(said.weights, taken.weights);
    EXPECT_EQ(said.workspace, taken.workspace);
    EXPECT_EQ(said.state, replica.state.parameters.bytes() + replica.state.gradients.bytes() +
                              replica.state.momentum.bytes() + replica.state.statistics.bytes() +
                              replica.state.second_moment.bytes());
    EXPECT_GE(said.activations, 5u * 17 * 8 * 8 * 2) << "at least one feature map in bf16";
  }
}

TEST_P(PlanContract, BatchNormOfOneValueIsRefused) {
  graph::Graph graph("test");
  graph::NodeId x = graph.convolution("conv", graph.input({3, 4, 4}), 8, {.kernel = 4});
  x = graph.linear("linear", graph.batch_norm("the_norm", x), 3);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  const auto backend = make_backend(GetParam().kind, 1);
  ModelState state = backend->make_state(graph);
  expect_error(core::ExitStatus::usage, {"the_norm"},
               [&] { backend->compile(graph, state, options(1)); });
  EXPECT_NO_THROW(backend->compile(graph, state, options(1, Mode::inference)));
  EXPECT_NO_THROW(backend->compile(graph, state, options(2)));
}

/// All-reduce over replicas that are threads of this process.
class Meeting : public core::StatisticsAllReduce {
 public:
  explicit Meeting(int replicas) : replicas_(replicas), barrier_(replicas) {}

  int replicas() const override { return replicas_; }

  void sum(std::span<float> values) override {
    add(values);
    barrier_.arrive_and_wait();
    std::ranges::copy(total_, values.begin());
    barrier_.arrive_and_wait();
  }

 private:
  void add(std::span<const float> values) {
    const std::lock_guard lock(mutex_);
    if (present_++ % replicas_ == 0) total_.assign(values.size(), 0);
    ASSERT_EQ(total_.size(), values.size()) << "replicas disagree on what they add up";
    for (std::size_t i = 0; i < values.size(); ++i) total_[i] += values[i];
  }

  int replicas_;
  int present_ = 0;
  std::barrier<> barrier_;
  std::mutex mutex_;
  std::vector<float> total_;
};

TEST_P(PlanContract, SharedBatchNormOfTwoHalvesIsThatOfTheWhole) {
  for (const char* name : {"bn_17", "conv_read_twice", "block_strided"}) {
    SCOPED_TRACE(name);
    const graph::Graph graph = network(name);
    const Batch images = random_batch(graph, 6, 11);
    Replica whole(GetParam().kind, 1, graph, options(6));
    whole.step(images);

    Meeting meeting(2);
    PlanOptions shared = options(3);
    shared.batch_norm_sum = &meeting;
    Replica left(GetParam().kind, 1, graph, shared);
    Replica right(GetParam().kind, 1, graph, shared);
    {
      const std::jthread other([&] { right.step(part(graph, images, 3, 3)); });
      left.step(part(graph, images, 0, 3));
    }
    const double tolerance = GetParam().tolerance;
    EXPECT_LE(relative_error(left.statistics(), whole.statistics()), tolerance);
    EXPECT_EQ(copy(left.statistics()), copy(right.statistics()));
    std::vector<float> mean(left.gradients().size());
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] = (left.gradients()[i] + right.gradients()[i]) / 2;
    }
    for (const graph::Parameter& parameter : graph.parameters()) {
      EXPECT_LE(relative_error(std::span(mean).subspan(parameter.offset, parameter.elements),
                               whole.gradients().subspan(parameter.offset, parameter.elements)),
                tolerance)
          << parameter.name;
    }
  }
}

/// The tolerance for bf16 is larger: another order of summation changes single values by a rounding
/// error, which can also change the sign of the input of a ReLU.
constexpr PlanDevice plan_devices[]{{DeviceKind::reference, Precision::fp32, 1e-6},
                                    {DeviceKind::cpu, Precision::fp32, 1e-5},
                                    {DeviceKind::cpu, Precision::bf16, 5e-2}};

INSTANTIATE_TEST_SUITE_P(Devices, PlanContract, testing::ValuesIn(plan_devices),
                         [](const auto& test) {
                           return fmt::format("{}_{}", core::name(test.param.kind),
                                              core::name(test.param.precision));
                         });

TEST(CpuPlan, EveryConvolutionAlgorithmGivesTheSameNumbers) {
  graph::Graph graph("test");
  graph::NodeId x = graph.convolution("stem", graph.input({3, 16, 16}), 64, {.kernel = 1});
  x = graph.convolution("conv", x, 64, {.kernel = 3, .stride = 1, .padding = 1});
  x = graph.convolution("mix", x, 32, {.kernel = 3, .stride = 2, .padding = 1});
  x = graph.linear("linear", graph.global_average_pool("pool", x), 5);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  const Batch images = random_batch(graph, 2, 1);
  Replica reference(DeviceKind::reference, 1, graph, {.batch = 2});
  reference.step(images);
  for (const auto algorithm : {ConvolutionAlgorithm::direct, ConvolutionAlgorithm::automatic,
                               ConvolutionAlgorithm::winograd}) {
    SCOPED_TRACE(core::name(algorithm));
    Replica device(DeviceKind::cpu, 1, graph, {.batch = 2, .convolution_algorithm = algorithm});
    device.step(images);
    expect_same_forward(graph, reference, device, 1e-5);
    expect_same_gradients(graph, reference, device, 1e-5);
    int by_winograd = 0;
    for (const OperationChoice& choice : device.plan->choices()) {
      EXPECT_FALSE(choice.implementation.empty()) << graph.node(choice.node).name;
      if (choice.implementation.find("winograd") != std::string::npos) ++by_winograd;
    }
    // Winograd's algorithm supports "conv" and "mix", in each of their three directions.
    if (algorithm == ConvolutionAlgorithm::direct) {
      EXPECT_EQ(by_winograd, 0);
    } else if (algorithm == ConvolutionAlgorithm::winograd) {
      EXPECT_EQ(by_winograd, 6);
    }
  }
}

// The convolutions have 1,024 and 256 tiles: two threads process several blocks of tiles each,
// twelve threads share them.
TEST(CpuPlan, WinogradsAlgorithmGivesTheSameNumbersForAnyNumberOfThreads) {
  graph::Graph graph("test");
  graph::NodeId x = graph.convolution("stem", graph.input({3, 16, 16}), 32, {.kernel = 1});
  x = graph.convolution("conv", x, 32, {.kernel = 3, .stride = 1, .padding = 1, .has_bias = true});
  x = graph.convolution("down", x, 64, {.kernel = 3, .stride = 2, .padding = 1, .has_bias = true});
  x = graph.linear("linear", graph.global_average_pool("pool", x), 5);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  const Batch images = random_batch(graph, 64, 1);
  Replica reference(DeviceKind::reference, 1, graph, {.batch = 64});
  reference.step(images);
  for (const int threads : {1, 2, 12}) {
    SCOPED_TRACE(testing::Message() << threads << " threads");
    Replica device(DeviceKind::cpu, threads, graph,
                   {.batch = 64, .convolution_algorithm = ConvolutionAlgorithm::winograd});
    device.step(images);
    expect_same_forward(graph, reference, device, 1e-5);
    expect_same_gradients(graph, reference, device, 1e-5);
  }
}

// The tolerance of 5e-2 is for the rounding errors of bf16 (see agreement_test.cpp). The AMX tiles
// are emulated if the processor has none.
TEST(CpuPlan, Bf16ConvolutionAlgorithmsAgreeWithTheReference) {
  graph::Graph graph("test");
  graph::NodeId x = graph.convolution("stem", graph.input({3, 8, 8}), 32, {.kernel = 1});
  x = graph.convolution("conv", x, 40, {.kernel = 3, .stride = 1, .padding = 1, .has_bias = true});
  x = graph.convolution("mix", x, 32, {.kernel = 3, .stride = 2, .padding = 1});
  x = graph.linear("linear", graph.global_average_pool("pool", x), 5);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  const Batch images = random_batch(graph, 3, 1);
  Replica reference(DeviceKind::reference, 1, graph, {.batch = 3});
  reference.step(images);
  for (const auto& [algorithm, threads] :
       std::initializer_list<std::pair<ConvolutionAlgorithm, int>>{
           {ConvolutionAlgorithm::amx, 1},
           {ConvolutionAlgorithm::amx, 2},
           {ConvolutionAlgorithm::winograd_bf16, 1},
           {ConvolutionAlgorithm::winograd_bf16, 2},
           {ConvolutionAlgorithm::winograd_int16, 1},
           {ConvolutionAlgorithm::winograd_int16, 2}}) {
    SCOPED_TRACE(testing::Message() << core::name(algorithm) << ", " << threads << " threads");
    Replica device(DeviceKind::cpu, threads, graph,
                   {.batch = 3, .precision = Precision::bf16, .convolution_algorithm = algorithm});
    device.step(images);
    expect_same_forward(graph, reference, device, 5e-2);
    expect_same_gradients(graph, reference, device, 5e-2);
    // The stem has no backward data direction and reads patches. The other two convolutions have
    // three directions each; Winograd's algorithms support "conv", and with integers "mix".
    int by_cells = 0, by_patches = 0, by_winograd = 0;
    for (const OperationChoice& choice : device.plan->choices()) {
      if (choice.implementation.ends_with("blocked maps")) ++by_cells;
      if (choice.implementation.ends_with("patches")) ++by_patches;
      if (choice.implementation.find(" winograd ") != std::string::npos) ++by_winograd;
    }
    EXPECT_EQ(by_cells, 6);
    EXPECT_EQ(by_patches, 2);
    const std::map<ConvolutionAlgorithm, int> expected_by_winograd{
        {ConvolutionAlgorithm::amx, 0},
        {ConvolutionAlgorithm::winograd_bf16, 3},
        {ConvolutionAlgorithm::winograd_int16, 6}};
    EXPECT_EQ(by_winograd, expected_by_winograd.at(algorithm));
  }
}

// The scores and the running statistics are compared in expect_same_forward; cells_test and
// winograd_kernels_test compare the sums exactly.
TEST(CpuPlan, StatisticsByTheConvolutionEqualThoseOfTheBatchNorm) {
  graph::Graph graph("test");
  graph::NodeId x = graph.convolution("conv1", graph.input({3, 9, 6}), 32, {3, 1, 1, true});
  x = graph.relu("relu1", graph.batch_norm("bn1", x));
  x = graph.batch_norm("bn2", graph.convolution("conv2", x, 64, {3, 1, 1}));
  x = graph.batch_norm("bn3", graph.convolution("conv3", x, 32, {.kernel = 1, .stride = 2}));
  x = graph.batch_norm("bn4", graph.relu("relu4", x));
  x = graph.linear("linear", graph.global_average_pool("pool", x), 5);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  const Batch images = random_batch(graph, 32, 3);
  const auto fused = [&](const Replica& replica) {
    int count = 0;
    for (const OperationChoice& choice : replica.plan->choices())
      count += choice.implementation == "statistics by the convolution" ? 1 : 0;
    return count;
  };
  struct Case {
    Precision precision;
    ConvolutionAlgorithm algorithm;
    int fused;
    double tolerance;
  };
  using enum ConvolutionAlgorithm;
  for (const auto& [precision, algorithm, count, tolerance] :
       {Case{Precision::fp32, direct, 0, 1e-5}, Case{Precision::fp32, winograd, 1, 1e-5},
        Case{Precision::bf16, amx, 3, 3e-2}, Case{Precision::bf16, winograd_bf16, 3, 3e-2},
        Case{Precision::bf16, winograd_int16, 3, 3e-2}}) {
    for (const int threads : {1, 2}) {
      SCOPED_TRACE(testing::Message() << core::name(precision) << ", " << core::name(algorithm)
                                      << ", " << threads << " threads");
      Replica reference(DeviceKind::reference, 1, graph, {.batch = 32});
      Replica device(DeviceKind::cpu, threads, graph,
                     {.batch = 32, .precision = precision, .convolution_algorithm = algorithm});
      EXPECT_EQ(fused(device), count);
      for (int step = 0; step < 2; ++step) {
        for (Replica* one : {&reference, &device}) {
          one->upload(images);
          one->plan->forward();
        }
        expect_same_forward(graph, reference, device, tolerance);
      }
    }
  }
  const Replica inference(DeviceKind::cpu, 1, graph,
                          {.batch = 32,
                           .mode = Mode::inference,
                           .convolution_algorithm = ConvolutionAlgorithm::winograd});
  EXPECT_EQ(fused(inference), 0);
}

TEST(CpuPlan, InstructionsThatTheProcessorLacksAreRefused) {
  const graph::Graph graph = network("bn_1");
  const auto compile = [&] {
    const Replica replica(DeviceKind::cpu, 1, graph,
                          {.batch = 32,
                           .precision = Precision::bf16,
                           .convolution_algorithm = ConvolutionAlgorithm::avx512_bf16});
  };
  if (__builtin_cpu_supports("avx512bf16")) {
    EXPECT_NO_THROW(compile());
    return;
  }
  expect_error(core::ExitStatus::usage, {"use --conv-algorithm auto"}, compile);
}

TEST(CpuPlan, PrecisionsOfGpusAreRefused) {
  const graph::Graph graph = network("bn_1");
  const auto backend = make_backend(DeviceKind::cpu, 1);
  ModelState state = backend->make_state(graph);
  for (const Precision precision : {Precision::tf32, Precision::fp16}) {
    expect_error(core::ExitStatus::usage, {},
                 [&] { backend->compile(graph, state, {.batch = 1, .precision = precision}); });
  }
}

TEST(AgreementMessages, NameTheImplementations) {
  const auto networks = small_networks();
  const graph::Graph& graph = networks.front().graph;
  const Batch images = random_batch(graph, 2, 7);
  Replica reference(DeviceKind::reference, 1, graph, {.batch = 2});
  Replica device(DeviceKind::cpu, 1, graph, {.batch = 2});
  reference.step(images);
  device.step(images);
  for (float& gradient : device.gradients()) gradient += 1;
  ::testing::TestPartResultArray failures;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(&failures);
    expect_same_gradients(graph, reference, device, 1e-5);
  }
  ASSERT_GT(failures.size(), 0);
  const std::string message = failures.GetTestPartResult(0).message();
  for (const OperationChoice& choice : device.plan->choices())
    EXPECT_NE(message.find(choice.phase + ": " + choice.implementation), std::string::npos)
        << message;
  EXPECT_FALSE(device.plan->choices().empty());
}

}  // namespace
}  // namespace lockstep::backend::test
