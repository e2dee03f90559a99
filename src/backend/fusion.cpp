// SPDX-License-Identifier: BSD-3-Clause
#include "fusion.hpp"

#include <optional>

#include "lockstep/graph/operations/flatten.hpp"

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
    Step step{node.operation, id, false, {}, node.output, node.parameters};
    for (const NodeId input : node.inputs) step.inputs.push_back(step_of(input));
    const graph::Traits traits = step.operation.traits();
    if (traits.reads_vectors && !is_vector(step.inputs[0])) {
      steps_.push_back({graph::Flatten{}, node.inputs[0], false, step.inputs,
                        graph_.node(node.inputs[0]).output});
      step.inputs = {static_cast<int>(steps_.size()) - 1};
    }
    const int index = static_cast<int>(steps_.size());
    step_of(id) = index;
    if (traits.takes_add_and_relu) absorb_followers(id, step, index);
    steps_.push_back(std::move(step));
  }

  /// Returns whether the output of a step is stored as vectors.
  bool is_vector(int index) const {
    const Step& step = steps_[static_cast<std::size_t>(index)];
    const graph::OutputForm form = step.operation.traits().form;
    if (form == graph::OutputForm::same_as_input) return is_vector(step.inputs[0]);
    return form == graph::OutputForm::vector;
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
    if (!graph_.node(consumers[0]).operation.is<Kind>()) return std::nullopt;
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
