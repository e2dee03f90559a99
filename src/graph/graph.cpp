#include "lockstep/graph/graph.hpp"

#include <fmt/format.h>

#include <utility>

#include "lockstep/core/error.hpp"

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

std::int64_t pooled(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                    std::int64_t padding) {
  if (size + 2 * padding < kernel) return 0;
  return (size + 2 * padding - kernel) / stride + 1;
}

}  // namespace

NodeId Graph::append(std::string name, Operation operation, std::vector<NodeId> inputs,
                     ImageShape output) {
  check(!sealed_, "a sealed graph cannot grow");
  check(output.elements() > 0, fmt::format("node {} has an empty output", name));
  nodes_.push_back({std::move(name), operation, std::move(inputs), output, {}, {}});
  return static_cast<NodeId>(nodes_.size() - 1);
}

void Graph::add_parameter(NodeId id, const char* suffix, std::vector<std::int64_t> shape,
                          Initial initial, std::int64_t fan_in) {
  Node& node = nodes_[static_cast<std::size_t>(id)];
  node.parameters.push_back(parameters_.size());
  const std::size_t elements = product(shape);
  parameters_.push_back({node.name + suffix, std::move(shape), initial, fan_in, id, elements, 0});
}

NodeId Graph::input(ImageShape image) { return append("input", Input{}, {}, image); }

NodeId Graph::convolution(std::string name, NodeId from, std::int64_t out_channels,
                          Convolution op) {
  const ImageShape in = node(from).output;
  const ImageShape out{out_channels, pooled(in.height, op.kernel, op.stride, op.padding),
                       pooled(in.width, op.kernel, op.stride, op.padding)};
  const NodeId id = append(std::move(name), op, {from}, out);
  const std::int64_t fan_in = in.channels * op.kernel * op.kernel;
  add_parameter(id, ".weight", {out_channels, in.channels, op.kernel, op.kernel},
                Initial::kaiming_uniform, fan_in);
  if (op.has_bias) add_parameter(id, ".bias", {out_channels}, Initial::bias_uniform, fan_in);
  return id;
}

NodeId Graph::batch_norm(std::string name, NodeId from, BatchNorm op) {
  const ImageShape shape = node(from).output;
  const NodeId id = append(std::move(name), op, {from}, shape);
  add_parameter(id, ".weight", {shape.channels}, Initial::ones, 0);
  add_parameter(id, ".bias", {shape.channels}, Initial::zeros, 0);
  Node& norm = nodes_.back();
  const auto channels = static_cast<std::size_t>(shape.channels);
  for (const auto& [suffix, initial] :
       {std::pair{".running_mean", Initial::zeros}, std::pair{".running_var", Initial::ones}}) {
    norm.statistics.push_back(statistics_.size());
    statistics_.push_back({norm.name + suffix, initial, id, channels, 0});
  }
  return id;
}

NodeId Graph::relu(std::string name, NodeId from) {
  return append(std::move(name), Relu{}, {from}, node(from).output);
}

NodeId Graph::add(std::string name, NodeId left, NodeId right) {
  check(node(left).output == node(right).output,
        fmt::format("{}: the summands' shapes differ", name));
  return append(std::move(name), Add{}, {left, right}, node(left).output);
}

NodeId Graph::max_pool(std::string name, NodeId from, MaxPool op) {
  check(2 * op.padding <= op.kernel, "padding of a max-pool is at most half its kernel");
  const ImageShape in = node(from).output;
  return append(std::move(name), op, {from},
                {in.channels, pooled(in.height, op.kernel, op.stride, op.padding),
                 pooled(in.width, op.kernel, op.stride, op.padding)});
}

NodeId Graph::global_average_pool(std::string name, NodeId from) {
  return append(std::move(name), GlobalAveragePool{}, {from}, {node(from).output.channels, 1, 1});
}

NodeId Graph::linear(std::string name, NodeId from, std::int64_t out_features) {
  const ImageShape in = node(from).output;
  check(in.pixels() == 1, fmt::format("{}: a linear node takes C x 1 x 1", name));
  const NodeId id = append(std::move(name), Linear{}, {from}, {out_features, 1, 1});
  add_parameter(id, ".weight", {out_features, in.channels}, Initial::kaiming_uniform, in.channels);
  add_parameter(id, ".bias", {out_features}, Initial::bias_uniform, in.channels);
  return id;
}

NodeId Graph::softmax_cross_entropy(std::string name, NodeId from, SoftmaxCrossEntropy op) {
  check(node(from).output.pixels() == 1, "the loss takes C x 1 x 1");
  return append(std::move(name), op, {from}, {1, 1, 1});
}

void Graph::seal() {
  check(!sealed_, "a graph is sealed once");
  check(!nodes_.empty() && std::holds_alternative<SoftmaxCrossEntropy>(nodes_.back().operation),
        "a graph ends in a loss");
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

std::int64_t Graph::classes() const {
  check(nodes_.size() >= 2, "a graph has nodes");
  return node(nodes_.back().inputs.at(0)).output.channels;
}

ImageShape Graph::image() const {
  check(!nodes_.empty(), "a graph has nodes");
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

}  // namespace lockstep::graph
