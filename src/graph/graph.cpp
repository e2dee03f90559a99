// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/graph/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/graph/operations.hpp"

namespace lockstep::graph {

using core::check;
using core::ImageShape;

namespace {

constexpr std::size_t alignment_elements = 16;  // 64 bytes of float32

std::size_t align(std::size_t elements) {
  return (elements + alignment_elements - 1) / alignment_elements * alignment_elements;
}

std::size_t product(const std::vector<std::int64_t>& shape) {
  std::size_t elements = 1;
  for (const auto extent : shape) elements *= static_cast<std::size_t>(extent);
  return elements;
}

bool ends_in_loss(const std::vector<Node>& nodes) {
  return !nodes.empty() && nodes.back().operation.traits().is_loss;
}

}  // namespace

std::vector<ImageShape> Graph::input_shapes(const Node& node) const {
  std::vector<ImageShape> shapes;
  for (const NodeId input : node.inputs) shapes.push_back(this->node(input).output);
  return shapes;
}

NodeId Graph::append(std::string name, Operation operation, std::vector<NodeId> inputs) {
  check(!sealed_, "a sealed graph cannot grow");
  Node node{std::move(name), operation, std::move(inputs), {}, {}, {}};
  const auto shapes = input_shapes(node);
  node.output = operation.output(shapes);
  check(!node.output.is_empty(), fmt::format("node {} has an empty output", node.name));
  const auto id = static_cast<NodeId>(nodes_.size());
  for (ParameterSpec& spec : operation.parameters(shapes)) {
    node.parameters.push_back(parameters_.size());
    const std::size_t elements = product(spec.shape);
    parameters_.push_back({.name = node.name + spec.suffix,
                           .shape = std::move(spec.shape),
                           .initial = spec.initial,
                           .fan_in = spec.fan_in,
                           .node = id,
                           .elements = elements,
                           .index = parameters_.size()});
  }
  for (const StatisticSpec& spec : operation.statistics(shapes)) {
    node.statistics.push_back(statistics_.size());
    statistics_.push_back(
        {node.name + spec.suffix, spec.initial, id, static_cast<std::size_t>(spec.channels)});
  }
  nodes_.push_back(std::move(node));
  return id;
}

NodeId Graph::input(ImageShape image) { return append("input", Input{image}, {}); }

NodeId Graph::convolution(std::string name, NodeId from, std::int64_t out_channels,
                          Convolution op) {
  op.out_channels = out_channels;
  return append(std::move(name), op, {from});
}

NodeId Graph::batch_norm(std::string name, NodeId from) {
  return append(std::move(name), BatchNorm{}, {from});
}

NodeId Graph::relu(std::string name, NodeId from) {
  return append(std::move(name), Relu{}, {from});
}

NodeId Graph::add(std::string name, NodeId left, NodeId right) {
  return append(std::move(name), Add{}, {left, right});
}

NodeId Graph::max_pool(std::string name, NodeId from, MaxPool op) {
  return append(std::move(name), op, {from});
}

NodeId Graph::global_average_pool(std::string name, NodeId from) {
  return append(std::move(name), GlobalAveragePool{}, {from});
}

NodeId Graph::flatten(std::string name, NodeId from) {
  return append(std::move(name), Flatten{}, {from});
}

NodeId Graph::linear(std::string name, NodeId from, std::int64_t out_features) {
  return append(std::move(name), Linear{out_features}, {from});
}

NodeId Graph::softmax_cross_entropy(std::string name, NodeId from, SoftmaxCrossEntropy op) {
  return append(std::move(name), op, {from});
}

void Graph::seal(std::vector<NodeId> outputs) {
  check(!sealed_, "a graph is sealed once");
  check(!outputs.empty() || ends_in_loss(nodes_), "a graph ends in a loss or has outputs");
  for (const NodeId output : outputs) node(output);  // throws if there is no such node
  boundary_outputs_ = std::move(outputs);
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    for (const std::size_t index : node->parameters) {
      parameters_[index].offset = parameter_elements_;
      parameter_elements_ += align(parameters_[index].elements);
    }
  }
  for (Statistic& statistic : statistics_) {
    statistic.offset = statistic_elements_;
    statistic_elements_ += align(statistic.elements);
  }
  sealed_ = true;
}

std::vector<NodeId> Graph::boundary_inputs() const {
  std::vector<NodeId> ids;
  for (std::size_t id = 0; id < nodes_.size(); ++id) {
    if (nodes_[id].operation.is<BoundaryInput>()) ids.push_back(static_cast<NodeId>(id));
  }
  return ids;
}

bool Graph::is_whole() const {
  return ends_in_loss(nodes_) && boundary_outputs_.empty() && boundary_inputs().empty();
}

std::int64_t Graph::classes() const {
  check(ends_in_loss(nodes_), "a graph with classes ends in a loss");
  return node(nodes_.back().inputs.at(0)).output.channels;
}

ImageShape Graph::image() const {
  check(!nodes_.empty() && nodes_.front().operation.is<Input>(),
        "a graph with images has an input");
  return nodes_.front().output;
}

std::size_t Graph::parameter_count() const {
  std::size_t count = 0;
  for (const Parameter& parameter : parameters_) count += parameter.elements;
  return count;
}

std::size_t Graph::parameter_elements() const {
  check(sealed_, "the layout of parameters exists after seal()");
  return parameter_elements_;
}

std::size_t Graph::statistic_elements() const {
  check(sealed_, "the layout of statistics exists after seal()");
  return statistic_elements_;
}

NodeCost Graph::cost(NodeId id) const {
  const Node& self = node(id);
  NodeCost cost = self.operation.cost(input_shapes(self), self.output);
  if (!self.inputs.empty() && node(self.inputs[0]).operation.is<Input>())
    cost.backward_data_flops = 0;
  return cost;
}

NodeCost Graph::total_cost() const {
  NodeCost total;
  for (NodeId id = 0; id < static_cast<NodeId>(nodes_.size()); ++id) {
    const NodeCost one = cost(id);
    total.forward_flops += one.forward_flops;
    total.backward_data_flops += one.backward_data_flops;
    total.backward_weight_flops += one.backward_weight_flops;
    total.output_elements += one.output_elements;
    total.forward_values += one.forward_values;
    total.backward_values += one.backward_values;
  }
  return total;
}

std::string Graph::describe(NodeId id) const {
  const Node& self = node(id);
  return self.operation.description(input_shapes(self), self.output);
}

void initialise_parameters(const Graph& graph, std::uint64_t seed, std::span<float> parameters) {
  check(parameters.size() >= graph.parameter_elements(), "the parameter buffer fits the graph");
  for (const Parameter& parameter : graph.parameters()) {
    const auto values = parameters.subspan(parameter.offset, parameter.elements);
    switch (parameter.initial) {
      case Initial::ones: std::ranges::fill(values, 1.0f); break;
      case Initial::zeros: std::ranges::fill(values, 0.0f); break;
      case Initial::kaiming_uniform:
      case Initial::bias_uniform: {
        const float bound = 1.0f / std::sqrt(static_cast<float>(parameter.fan_in));
        core::Random random(seed, core::RandomStream::weights, parameter.index);
        std::ranges::generate(values, [&] { return bound * (2 * random.uniform() - 1); });
      }
    }
  }
}

void initialise_statistics(const Graph& graph, std::span<float> statistics) {
  check(statistics.size() >= graph.statistic_elements(), "the statistics buffer fits the graph");
  for (const Statistic& statistic : graph.statistics()) {
    std::ranges::fill(statistics.subspan(statistic.offset, statistic.elements),
                      statistic.initial == Initial::ones ? 1.0f : 0.0f);
  }
}

}  // namespace lockstep::graph
