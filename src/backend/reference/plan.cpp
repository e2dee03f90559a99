#include "plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "../checks.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::reference {

namespace {

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

bool is_input(const graph::Node& node) {
  return std::holds_alternative<graph::Input>(node.operation);
}

/// Returns, for each node, the number of leading elements of the flat gradients that are final
/// after the backward pass of the node: all before the first parameter of the nodes before it.
std::vector<std::size_t> final_gradients(const graph::Graph& graph) {
  std::vector<std::size_t> filled(graph.nodes().size(), graph.parameter_elements());
  for (std::size_t id = 0; id < filled.size(); ++id) {
    for (const graph::Parameter& parameter : graph.parameters()) {
      if (static_cast<std::size_t>(parameter.node) < id) {
        filled[id] = std::min(filled[id], parameter.offset);
      }
    }
  }
  return filled;
}
}  // namespace

ReferencePlan::ReferencePlan(const graph::Graph& graph, ModelState& state,
                             const PlanOptions& options)
    : HostPlan(state),
      graph_(graph),
      options_(options),
      memory_(memory_use(graph, options)),
      parameters_(graph.parameter_elements()),
      filled_to_(final_gradients(graph)),
      labels_(options.batch),
      logits_(options.batch * graph.classes()) {
  const bool training = options.mode == Mode::training;
  if (training) {
    refuse_single_values(graph, options);
    gradients_.resize(graph.parameter_elements());
  }
  for (const graph::Node& node : graph.nodes()) {
    NodeMemory& memory = nodes_.emplace_back();
    memory.output = Tensor(options.batch, node.output);
    if (training && !is_input(node)) memory.gradient = Tensor(options.batch, node.output);
    if (std::holds_alternative<graph::BatchNorm>(node.operation)) {
      memory.moments = BatchNormMoments(node.output.channels);
    }
    if (std::holds_alternative<graph::MaxPool>(node.operation)) {
      memory.winners.resize(options.batch * node.output.elements());
    }
    if (std::holds_alternative<graph::SoftmaxCrossEntropy>(node.operation)) {
      memory.probabilities = Tensor(options.batch, graph.node(node.inputs[0]).output);
    }
  }
}

Tensor* ReferencePlan::input_gradient(graph::NodeId input) {
  return is_input(graph_.node(input)) ? nullptr : &memory_of(input).gradient;
}

std::span<double> ReferencePlan::parameter(const graph::Node& node, std::size_t index) {
  if (index >= node.parameters.size()) return {};
  const graph::Parameter& parameter = graph_.parameters()[node.parameters[index]];
  return std::span(parameters_).subspan(parameter.offset, parameter.elements);
}

std::span<double> ReferencePlan::parameter_gradient(const graph::Node& node, std::size_t index) {
  if (index >= node.parameters.size()) return {};
  const graph::Parameter& parameter = graph_.parameters()[node.parameters[index]];
  return std::span(gradients_).subspan(parameter.offset, parameter.elements);
}

RunningStatistics ReferencePlan::running(const graph::Node& node) {
  const auto view = [&](std::size_t index) {
    const graph::Statistic& statistic = graph_.statistics()[node.statistics[index]];
    return state_.statistics.as<float>().subspan(statistic.offset, statistic.elements);
  };
  return {.mean = view(0), .variance = view(1)};
}

void ReferencePlan::upload(std::span<const std::uint8_t> images,
                           std::span<const std::int32_t> labels) {
  const auto count = static_cast<std::int64_t>(labels.size());
  core::check(count > 0 && count <= options_.batch, "a batch has 1 to `batch` images");
  core::check(options_.mode == Mode::inference || count == options_.batch,
              "a training batch is full");
  core::check(static_cast<std::int64_t>(images.size()) == count * graph_.image().elements(),
              "there are as many images as labels");
  for (const std::int32_t label : labels) {
    core::check(label >= 0 && label < graph_.classes(), "labels name classes of the network");
  }
  for (NodeMemory& memory : nodes_) {
    memory.output.batch = memory.gradient.batch = memory.probabilities.batch = count;
  }
  labels_.assign(labels.begin(), labels.end());
  normalise(options_.normalisation, images, nodes_.front().output);
}

void ReferencePlan::forward() {
  std::ranges::copy(state_.parameters.as<float>().first(parameters_.size()), parameters_.begin());
  for (std::size_t id = 0; id < nodes_.size(); ++id) {
    forward_node(graph_.nodes()[id], nodes_[id]);
    core::report_progress(options_.progress);
  }
  if (options_.mode == Mode::training) ++state_.batches_tracked;
  const auto scores = input_of(graph_.nodes().back()).all();
  std::ranges::transform(scores, logits_.begin(),
                         [](double score) { return static_cast<float>(score); });
}

void ReferencePlan::forward_node(const graph::Node& node, NodeMemory& memory) {
  Tensor& y = memory.output;
  const auto weight = parameter(node, 0);
  const auto bias = parameter(node, 1);
  const auto batch_norm = [&](const graph::BatchNorm& operation) {
    if (options_.mode == Mode::inference) {
      batch_norm_forward_inference(operation, input_of(node), weight, bias, running(node), y);
    } else {
      batch_norm_forward_training(operation, input_of(node), weight, bias, options_.batch_norm_sum,
                                  memory.moments, running(node), y);
    }
  };
  std::visit(Overloaded{
                 [](const graph::Input&) {},  // filled by upload
                 [&](const graph::Convolution& operation) {
                   convolution_forward(operation, input_of(node), weight, bias, y);
                 },
                 batch_norm,
                 [&](const graph::Relu&) { relu_forward(input_of(node), y); },
                 [&](const graph::Add&) {
                   add_forward(input_of(node), memory_of(node.inputs[1]).output, y);
                 },
                 [&](const graph::MaxPool& operation) {
                   max_pool_forward(operation, input_of(node), memory.winners, y);
                 },
                 [&](const graph::GlobalAveragePool&) { average_pool_forward(input_of(node), y); },
                 [&](const graph::Linear&) { linear_forward(input_of(node), weight, bias, y); },
                 [&](const graph::SoftmaxCrossEntropy& operation) {
                   result_ = softmax_cross_entropy_forward(operation, input_of(node), labels_,
                                                           memory.probabilities, y);
                 },
             },
             node.operation);
}

std::span<const float> ReferencePlan::logits() const {
  return std::span(logits_).first(result_.images * graph_.classes());
}

void ReferencePlan::backward(core::GradientListener& listener) {
  core::check(options_.mode == Mode::training, "only a training plan has gradients");
  for (NodeMemory& memory : nodes_) std::ranges::fill(memory.gradient.values, 0.0);
  for (std::size_t id = nodes_.size(); id-- > 0;) {
    const graph::Node& node = graph_.nodes()[id];
    if (is_input(node)) continue;
    backward_node(node, nodes_[id]);
    store_gradients(node);
    core::report_progress(options_.progress);
    listener.filled_to(filled_to_[id]);
  }
}

void ReferencePlan::backward_node(const graph::Node& node, NodeMemory& memory) {
  const Tensor& x = input_of(node);
  const Tensor& dy = memory.gradient;
  Tensor* dx = input_gradient(node.inputs[0]);
  const auto weight = parameter(node, 0);
  const auto dweight = parameter_gradient(node, 0);
  const auto dbias = parameter_gradient(node, 1);
  std::visit(Overloaded{
                 [](const graph::Input&) {},
                 [&](const graph::Convolution& operation) {
                   convolution_backward(operation, x, weight, dy, dx, dweight, dbias);
                 },
                 [&](const graph::BatchNorm&) {
                   batch_norm_backward(x, weight, dy, options_.batch_norm_sum, memory.moments, dx,
                                       dweight, dbias);
                 },
                 [&](const graph::Relu&) { relu_backward(x, dy, dx); },
                 [&](const graph::Add&) { add_backward(dy, dx, input_gradient(node.inputs[1])); },
                 [&](const graph::MaxPool&) { max_pool_backward(memory.winners, dy, dx); },
                 [&](const graph::GlobalAveragePool&) { average_pool_backward(dy, dx); },
                 [&](const graph::Linear&) { linear_backward(x, weight, dy, dx, dweight, dbias); },
                 [&](const graph::SoftmaxCrossEntropy& operation) {
                   softmax_cross_entropy_backward(operation, labels_, memory.probabilities, dx);
                 },
             },
             node.operation);
}

void ReferencePlan::store_gradients(const graph::Node& node) {
  for (const std::size_t index : node.parameters) {
    const graph::Parameter& parameter = graph_.parameters()[index];
    const auto from = std::span(gradients_).subspan(parameter.offset, parameter.elements);
    std::ranges::transform(
        from, state_.gradients.as<float>().begin() + static_cast<std::ptrdiff_t>(parameter.offset),
        [](double value) { return static_cast<float>(value); });
  }
}

std::vector<OperationChoice> choices_of(const graph::Graph& graph, Mode mode) {
  std::vector<OperationChoice> choices;
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const auto node = static_cast<graph::NodeId>(id);
    choices.push_back({node, "forward", "plain loops in float64"});
    if (mode == Mode::inference || is_input(graph.node(node))) continue;
    choices.push_back({node, "backward data", "plain loops in float64"});
    if (graph.node(node).parameters.empty()) continue;
    choices.push_back({node, "backward weights", "plain loops in float64"});
  }
  return choices;
}

MemoryUse memory_use(const graph::Graph& graph, const PlanOptions& options) {
  const bool training = options.mode == Mode::training;
  const auto batch = static_cast<std::size_t>(options.batch);
  MemoryUse use;
  use.state = sizeof(float) * (3 * graph.parameter_elements() + graph.statistic_elements());
  use.weights = sizeof(double) * graph.parameter_elements() * (training ? 2 : 1);
  use.workspace = batch * (sizeof(std::int32_t) + sizeof(float) * graph.classes());
  for (const graph::Node& node : graph.nodes()) {
    const std::size_t elements = batch * node.output.elements();
    const bool has_gradient = training && !is_input(node);
    use.activations += sizeof(double) * elements * (has_gradient ? 2 : 1);
    if (std::holds_alternative<graph::BatchNorm>(node.operation)) {
      const auto channels = static_cast<std::size_t>(node.output.channels);
      use.workspace += sizeof(double) * 2 * channels + sizeof(float) * (1 + 2 * channels);
    }
    if (std::holds_alternative<graph::MaxPool>(node.operation)) {
      use.workspace += sizeof(std::int32_t) * elements;
    }
    if (std::holds_alternative<graph::SoftmaxCrossEntropy>(node.operation)) {
      use.workspace += sizeof(double) * batch * graph.classes();
    }
  }
  return use;
}

}  // namespace lockstep::backend::reference
