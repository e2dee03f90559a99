// SPDX-License-Identifier: BSD-3-Clause
// Tests the weight gradients on the side stream: the results have the same bits as without it, and
// each dependency between the streams is necessary.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "backend/support.hpp"
#include "lockstep/core/random.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::backend::test {
namespace {

using simulated_gpu::ForkOrder;

constexpr std::int64_t images_per_batch = 3;
constexpr std::int64_t convolutions = 4;  ///< of `network`, the linear layer included
/// The first convolution has no gradient of its input, so nothing is left to do beside it. Each of
/// the others has a fork and a join.
constexpr std::int64_t waits_of_side_stream = 2 * (convolutions - 1);
constexpr std::int64_t waits_of_upload = 2;  ///< before the captured work

/// Returns a network with a residual block.
graph::Graph network() {
  graph::Graph graph("residual");
  const auto convolution = [&](const std::string& name, graph::NodeId from) {
    return graph.batch_norm("bn" + name,
                            graph.convolution("conv" + name, from, 8, {.kernel = 3, .padding = 1}));
  };
  const auto first = graph.relu("relu0", convolution("0", graph.input({3, 6, 7})));
  const auto inner = graph.relu("relu1", convolution("1", first));
  const auto sum = graph.relu("relu2", graph.add("add", convolution("2", inner), first));
  const auto pooled = graph.global_average_pool("pool", sum);
  graph.softmax_cross_entropy("loss", graph.linear("linear", pooled, 4), {});
  graph.seal();
  return graph;
}

class TrainingWork final : public StepWork {
 public:
  TrainingWork(Plan& plan, std::size_t elements) : plan_(plan), elements_(elements) {}
  void enqueue() override {
    core::NoGradientListener nobody;
    plan_.forward();
    plan_.backward(nobody);
    plan_.update(0, elements_);
  }

 private:
  Plan& plan_;
  std::size_t elements_;
};

/// A replica whose training steps are captured.
class CapturedTraining {
 public:
  explicit CapturedTraining(WeightStream weight_stream)
      : state_(backend_->make_state(graph_)),
        // Every gradient is converted as soon as it is announced as final.
        plan_(backend_->compile(graph_, state_,
                                {.batch = images_per_batch,
                                 .batch_norm_fusion = BatchNormFusion::none,
                                 .weight_stream = weight_stream,
                                 .gradient_portion = 1})) {
    executor_ = plan_->make_step_executor(
        std::make_unique<TrainingWork>(*plan_, graph_.parameter_elements()));
    executor_->captures()->rehearse();
  }

  /// Captures the steps of both slots; the wait `ignored` of the first one has no effect.
  void capture(std::int64_t ignored) {
    simulated_gpu::ignore_wait(ignored);
    while (executor_->captures()->capture()) continue;
    captured_waits_ = simulated_gpu::waits() / 2;
    simulated_gpu::ignore_wait(0);
  }
  std::int64_t captured_waits() const { return captured_waits_; }  ///< per step

  /// Returns the gradients and the parameters after two steps from the initial state.
  std::vector<float> train(ForkOrder order) {
    simulated_gpu::set_fork_order(order);
    initialise();
    for (const std::uint64_t seed : {1, 2}) {
      const Batch images = random_batch(graph_, images_per_batch, seed);
      executor_->begin();
      plan_->set_coefficients({.learning_rate = 0.1F});
      plan_->upload(images.images, images.labels);
      executor_->run();
      executor_->collect();
    }
    backend_->fetch(state_);
    simulated_gpu::set_fork_order(ForkOrder::late);
    std::vector<float> values;
    for (const core::Buffer* const buffer : {&state_.gradients, &state_.parameters}) {
      const auto some = buffer->as<float>();
      values.insert(values.end(), some.begin(), some.end());
    }
    return values;
  }

 private:
  void initialise() {
    core::Random random(1, core::RandomStream::test);
    for (float& value : state_.parameters.as<float>()) value = random.uniform() - 0.5F;
    for (float& value : state_.statistics.as<float>()) value = 1;
    for (float& value : state_.momentum.as<float>()) value = 0;
    backend_->store(state_);
  }

  graph::Graph graph_ = network();
  // Implementations that are chosen by timing round differently.
  std::unique_ptr<Backend> backend_ =
      make_backend({.kind = DeviceKind::cuda, .threads = 1, .deterministic = true});
  ModelState state_;
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<StepExecutor> executor_;
  std::int64_t captured_waits_ = 0;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> trained_without_it() {
  CapturedTraining training(WeightStream::off);
  training.capture(0);
  EXPECT_EQ(training.captured_waits(), waits_of_upload);
  return training.train(ForkOrder::late);
}

TEST(WeightStream, LeavesTheBits) {
  CapturedTraining training(WeightStream::on);
  training.capture(0);
  EXPECT_EQ(training.captured_waits(), waits_of_upload + waits_of_side_stream);
  const std::vector<float> expected = trained_without_it();
  for (const ForkOrder order : {ForkOrder::late, ForkOrder::early})
    EXPECT_TRUE(same_bits(training.train(order), expected));
}

// A missing fork lets the side stream read gradients before they are computed, or leave the
// capture; a missing join lets the compute stream use weight gradients before they are computed.
TEST(WeightStream, NeedsEachOfItsWaits) {
  const std::vector<float> expected = trained_without_it();
  for (std::int64_t ignored = 1; ignored <= waits_of_side_stream; ++ignored) {
    CapturedTraining training(WeightStream::on);
    const auto violations =
        simulated_gpu::record_violations([&] { training.capture(waits_of_upload + ignored); });
    if (!violations.empty()) continue;
    const bool is_right = same_bits(training.train(ForkOrder::late), expected) &&
                          same_bits(training.train(ForkOrder::early), expected);
    EXPECT_FALSE(is_right) << "wait " << ignored << " is not necessary, or its loss is not found";
  }
}

// The maps that the weight gradients read are kept one step longer.
TEST(WeightStream, NeedsMoreMemoryOnlyForMaps) {
  const graph::Graph graph = network();
  const auto backend = make_backend(DeviceKind::cuda, 1);
  const auto memory = [&](WeightStream weight_stream) {
    return backend->memory(graph, {.batch = images_per_batch, .weight_stream = weight_stream});
  };
  const MemoryUse on = memory(WeightStream::on), off = memory(WeightStream::off);
  EXPECT_GE(on.activations, off.activations);
  EXPECT_EQ(on.state, off.state);
  EXPECT_EQ(on.weights, off.weights);
}

}  // namespace
}  // namespace lockstep::backend::test
