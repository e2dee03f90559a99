// SPDX-License-Identifier: BSD-3-Clause
// Tests the delayed part of the backward pass of operations: its order, the memory that it reads,
// and when its gradients are announced; gradients that share memory; and the order of
// recomputations.

#include "blueprint.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

namespace lockstep::backend {
namespace {

using testing::ElementsAre;

/// What the operations of a blueprint do, in order.
struct Journal {
  std::vector<std::string> events;
  std::vector<const FeatureMap*> delayed;  ///< maps that delayed work still reads
};

bool overlap(const FeatureMap& a, const FeatureMap& b) {
  return a.data < b.data + b.bytes() && b.data < a.data + a.bytes();
}

/// Reads its inputs and output gradients in the delayed part of its backward pass.
class Recorder final : public Operation {
 public:
  Recorder(std::string name, int delay, Operands operands, Journal& journal)
      : Operation(std::move(operands)), name_(std::move(name)), delay_(delay), journal_(journal) {}

  std::size_t workspace_bytes() const override { return 100; }
  std::size_t delayed_workspace_bytes() const override { return delay_ > 0 ? 40 : 0; }
  BackwardNeeds backward_needs() const override { return {.inputs = 1, .output = false}; }
  int backward_delay() const override { return delay_; }
  void bind(const MemoryBinding& binding) override { binding_ = binding; }
  void forward() override {}
  void backward() override {
    journal_.events.push_back(name_);
    for (const FeatureMap* const written : operands().input_gradients) {
      if (written == nullptr) continue;
      for (const FeatureMap* const read : journal_.delayed)
        EXPECT_FALSE(overlap(*written, *read)) << name_;
    }
    if (delay_ == 0) return;
    EXPECT_GE(binding_.delayed_workspace, binding_.workspace + workspace_bytes());
    for (const auto& maps : {operands().inputs, operands().output_gradients})
      journal_.delayed.insert(journal_.delayed.end(), maps.begin(), maps.end());
  }
  void finish_backward() override {
    journal_.events.push_back("end of " + name_);
    for (const auto& maps : {operands().inputs, operands().output_gradients})
      for (const FeatureMap* const map : maps) std::erase(journal_.delayed, map);
  }

 private:
  std::string name_;
  int delay_;
  Journal& journal_;
  MemoryBinding binding_;
};

/// Convolutions have a delay, other operations have none.
class Recorders final : public OperationFactory {
 public:
  Recorders(const graph::Graph& graph, int delay, Journal& journal)
      : graph_(graph), options_{.batch = 2}, delay_(delay), journal_(journal) {}

  const graph::Graph& graph() const override { return graph_; }
  const PlanOptions& options() const override { return options_; }
  FeatureMap image_map(core::ImageShape shape) const override { return feature_map(shape); }
  FeatureMap feature_map(core::ImageShape shape) const override {
    return {options_.batch, shape, core::DataType::float32, MapLayout::channels_last, nullptr};
  }
  std::unique_ptr<Operation> make(const Step& step, Operands operands) override {
    if (step.inputs.empty()) return nullptr;
    const bool is_delayed = step.operation.is<graph::Convolution>();
    return std::make_unique<Recorder>(graph_.node(step.node).name, is_delayed ? delay_ : 0,
                                      std::move(operands), journal_);
  }
  void add_into(const FeatureMap&, const FeatureMap&) override {}

 private:
  const graph::Graph& graph_;
  PlanOptions options_;
  int delay_;
  Journal& journal_;
};

/// Records the numbers of final elements.
class Announcements final : public core::GradientListener {
 public:
  void gradients_ready(std::size_t elements) override { elements_.push_back(elements); }
  const std::vector<std::size_t>& elements() const { return elements_; }

 private:
  std::vector<std::size_t> elements_;
};

/// Two convolutions, each followed by a batch norm.
graph::Graph chain() {
  graph::Graph graph("chain");
  graph::NodeId node = graph.input({3, 4, 4});
  for (const std::string name : {"1", "2"})
    node = graph.batch_norm("bn" + name, graph.convolution("conv" + name, node, 5, {.kernel = 1}));
  graph.softmax_cross_entropy("loss", graph.global_average_pool("pool", node), {});
  graph.seal();
  return graph;
}

class DelayedBackward : public testing::Test {
 protected:
  /// Returns the number of elements of the flat layout up to the end of the parameters of a node.
  std::size_t end_of(const std::string& name) const {
    std::size_t end = 0;
    for (const graph::Node& node : graph_.nodes()) {
      if (node.name != name) continue;
      for (const std::size_t index : node.parameters) {
        const graph::Parameter& parameter = graph_.parameters()[index];
        end = std::max(end, parameter.offset + parameter.elements);
      }
    }
    return end;
  }
  void run(int delay) {
    Recorders factory(graph_, delay, journal_);
    Blueprint blueprint(factory);
    core::Buffer arena(blueprint.arena_bytes()), workspace(blueprint.workspace_bytes());
    ModelState state;
    blueprint.bind(arena.data(), workspace.data(), state);
    blueprint.backward(listener_);
    EXPECT_TRUE(journal_.delayed.empty());
  }

  graph::Graph graph_ = chain();
  std::size_t all_ = graph_.parameter_elements();
  Journal journal_;
  Announcements listener_;
};

// The flat layout has the parameters of bn2, conv2, bn1 and conv1 in this order.
TEST_F(DelayedBackward, WithoutDelayGradientsAreFinalAtOnce) {
  run(0);
  EXPECT_THAT(journal_.events, ElementsAre("loss", "pool", "bn2", "conv2", "bn1", "conv1"));
  EXPECT_THAT(listener_.elements(), ElementsAre(0, 0, end_of("bn2"), end_of("conv2"), end_of("bn1"),
                                                end_of("conv1"), all_));
}

TEST_F(DelayedBackward, IsCompleteAfterTheNextStep) {
  run(1);
  EXPECT_THAT(journal_.events, ElementsAre("loss", "pool", "bn2", "conv2", "bn1", "end of conv2",
                                           "conv1", "end of conv1"));
  // The gradients of bn1 are complete before those of conv2, which precede them.
  EXPECT_THAT(listener_.elements(),
              ElementsAre(0, 0, end_of("bn2"), end_of("bn2"), end_of("bn1"), end_of("bn1"), all_));
}

TEST_F(DelayedBackward, IsCompleteAtTheEndOfThePass) {
  run(99);
  EXPECT_THAT(journal_.events, ElementsAre("loss", "pool", "bn2", "conv2", "bn1", "conv1",
                                           "end of conv1", "end of conv2"));
  EXPECT_THAT(listener_.elements(),
              ElementsAre(0, 0, end_of("bn2"), end_of("bn2"), end_of("bn2"), end_of("bn2"), all_));
}

/// A normalisation that computes its output again and writes the gradient of its input over that of
/// its output, or neither.
class Normalisation final : public Operation {
 public:
  Normalisation(std::string name, bool saves_memory, Operands operands, Journal& journal)
      : Operation(std::move(operands)),
        name_(std::move(name)),
        saves_memory_(saves_memory),
        journal_(journal) {}

  BackwardNeeds backward_needs() const override { return {.inputs = 1, .output = false}; }
  bool can_recompute() const override { return saves_memory_; }
  std::optional<std::size_t> overwritten_gradient(std::size_t) const override {
    return saves_memory_ ? std::optional<std::size_t>(0) : std::nullopt;
  }
  void forward() override {}
  void recompute() override { journal_.events.push_back("output of " + name_); }
  void backward() override {
    journal_.events.push_back(name_);
    const FeatureMap& read = *operands().output_gradients[0];
    EXPECT_EQ(overlap(read, *operands().input_gradients[0]), saves_memory_) << name_;
    EXPECT_FALSE(overlap(read, *operands().inputs[0])) << name_;
  }

 private:
  std::string name_;
  bool saves_memory_;
  Journal& journal_;
};

/// Recorders without delay, and normalisations.
class LowMemory final : public OperationFactory {
 public:
  LowMemory(const graph::Graph& graph, bool saves_memory, Journal& journal)
      : recorders_(graph, 0, journal), saves_memory_(saves_memory), journal_(journal) {}

  const graph::Graph& graph() const override { return recorders_.graph(); }
  const PlanOptions& options() const override { return recorders_.options(); }
  FeatureMap image_map(core::ImageShape shape) const override { return feature_map(shape); }
  FeatureMap feature_map(core::ImageShape shape) const override {
    return recorders_.feature_map(shape);
  }
  std::unique_ptr<Operation> make(const Step& step, Operands operands) override {
    if (!step.operation.is<graph::BatchNorm>()) return recorders_.make(step, std::move(operands));
    return std::make_unique<Normalisation>(graph().node(step.node).name, saves_memory_,
                                           std::move(operands), journal_);
  }
  void add_into(const FeatureMap&, const FeatureMap&) override {}

 private:
  Recorders recorders_;
  bool saves_memory_;
  Journal& journal_;
};

TEST(LowMemoryPlan, RecomputesBeforeTheFirstUseAndOverwritesGradients) {
  const graph::Graph graph = chain();
  std::size_t bytes[2]{};
  for (const bool saves_memory : {false, true}) {
    Journal journal;
    LowMemory factory(graph, saves_memory, journal);
    Blueprint blueprint(factory);
    core::Buffer arena(blueprint.arena_bytes()), workspace(blueprint.workspace_bytes());
    ModelState state;
    blueprint.bind(arena.data(), workspace.data(), state);
    blueprint.forward();
    core::NoGradientListener nobody;
    blueprint.backward(nobody);
    bytes[saves_memory ? 1 : 0] = blueprint.arena_bytes();
    if (saves_memory) {
      EXPECT_THAT(journal.events,
                  ElementsAre("loss", "pool", "bn2", "output of bn1", "conv2", "bn1", "conv1"));
    } else {
      EXPECT_THAT(journal.events, ElementsAre("loss", "pool", "bn2", "conv2", "bn1", "conv1"));
    }
  }
  EXPECT_LT(bytes[1], bytes[0]);
}

TEST_F(DelayedBackward, HasAWorkspaceOfItsOwn) {
  Recorders with(graph_, 1, journal_), without(graph_, 0, journal_);
  EXPECT_EQ(Blueprint(without).workspace_bytes(), 100u);
  // The second workspace begins at a multiple of 256 bytes.
  EXPECT_EQ(Blueprint(with).workspace_bytes(), 256u + 40u);
}

}  // namespace
}  // namespace lockstep::backend
