#include "fusion.hpp"

#include <optional>
#include <variant>

#include "lockstep/core/error.hpp"

namespace lockstep::backend {

using graph::Graph;
using graph::Node;
using graph::NodeId;

namespace {

std::vector<std::vector<NodeId>> consumers_of(const Graph& graph) {
  std::vector<std::vector<NodeId>> consumers(graph.nodes().size());
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    for (const NodeId input : graph.nodes()[id].inputs) {
      consumers[static_cast<std::size_t>(input)].push_back(static_cast<NodeId>(id));
    }
  }
  return consumers;
}

struct KindOf {
  StepKind operator()(const graph::Input&) const { return StepKind::input; }
  StepKind operator()(const graph::Convolution&) const { return StepKind::convolution; }
  StepKind operator()(const graph::BatchNorm&) const { return StepKind::batch_norm; }
  StepKind operator()(const graph::Relu&) const { return StepKind::relu; }
  StepKind operator()(const graph::Add&) const { return StepKind::add; }
  StepKind operator()(const graph::MaxPool&) const { return StepKind::max_pool; }
  StepKind operator()(const graph::GlobalAveragePool&) const { return StepKind::average_pool; }
  StepKind operator()(const graph::Linear&) const { return StepKind::linear; }
  StepKind operator()(const graph::SoftmaxCrossEntropy&) const { return StepKind::loss; }
};

class Fuser {
 public:
  explicit Fuser(const Graph& graph)
      : graph_(graph), consumers_(consumers_of(graph)), step_of_(graph.nodes().size(), -1) {}

  std::vector<Step> run() {
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      if (step_of(id) == -1) append(id);
    }
    return std::move(steps_);
  }

 private:
  int& step_of(NodeId id) { return step_of_[static_cast<std::size_t>(id)]; }

  void append(NodeId id) {
    const Node& node = graph_.node(id);
    Step step{std::visit(KindOf{}, node.operation), id, false, {}, node.output};
    for (const NodeId input : node.inputs) step.inputs.push_back(step_of(input));
    const bool wants_features = step.kind == StepKind::linear || step.kind == StepKind::loss;
    if (wants_features && !gives_features(steps_[static_cast<std::size_t>(step.inputs[0])].kind)) {
      steps_.push_back({StepKind::average_pool, node.inputs[0], false, step.inputs,
                        graph_.node(node.inputs[0]).output});
      step.inputs = {static_cast<int>(steps_.size()) - 1};
    }
    const int index = static_cast<int>(steps_.size());
    step_of(id) = index;
    if (step.kind == StepKind::batch_norm) absorb_followers(id, step, index);
    steps_.push_back(std::move(step));
  }

  static bool gives_features(StepKind kind) {
    return kind == StepKind::average_pool || kind == StepKind::linear;
  }

  void absorb_followers(NodeId last, Step& step, int index) {
    if (const auto add = only_consumer<graph::Add>(last)) {
      const Node& sum = graph_.node(*add);
      const NodeId other = sum.inputs[0] == last ? sum.inputs[1] : sum.inputs[0];
      if (other != last && step_of(other) != -1) {  // the other summand has been computed by then
        step.inputs.push_back(step_of(other));
        step_of(*add) = index;
        last = *add;
      }
    }
    if (const auto relu = only_consumer<graph::Relu>(last)) {
      step.with_relu = true;
      step_of(*relu) = index;
    }
  }

  template <class Kind>
  std::optional<NodeId> only_consumer(NodeId id) const {
    const auto& consumers = consumers_[static_cast<std::size_t>(id)];
    if (consumers.size() != 1) return std::nullopt;
    if (!std::holds_alternative<Kind>(graph_.node(consumers[0]).operation)) return std::nullopt;
    return consumers[0];
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<int> step_of_;  ///< the step that computes a node's output
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> fuse(const Graph& graph) { return Fuser(graph).run(); }

}  // namespace lockstep::backend
