// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/image.hpp"
#include "lockstep/graph/operation.hpp"

namespace lockstep::graph {

/// Index of a node in `Graph::nodes()`. The inputs of a node have smaller indices.
using NodeId = std::int32_t;

/// A trainable tensor. All parameters are stored in one flat float32 buffer, in backward order (the
/// last layer first), each at a multiple of 64 bytes. Gradients and momentum have the same layout.
struct Parameter {
  std::string name;  ///< as in PyTorch's state_dict: "layer1.0.conv1.weight"
  /// KCRS for convolutions, (out, in) for linear layers, (channels) otherwise.
  std::vector<std::int64_t> shape;
  Initial initial = Initial::zeros;
  std::int64_t fan_in = 0;  ///< inputs per output value; determines the range of the initial values
  NodeId node = -1;         ///< node that has this parameter
  std::size_t elements = 0;
  std::size_t offset = 0;  ///< in elements, into the flat buffer
  std::size_t index = 0;   ///< in the parameters of the whole network, also in a stage

  /// Returns whether it is a bias, or the weight of a normalisation.
  bool is_vector() const { return shape.size() == 1; }
};

/// A running statistic of a batch-norm node, of shape (channels). All statistics are stored in one
/// flat float32 buffer, in forward order, each at a multiple of 64 bytes.
struct Statistic {
  std::string name;  ///< "bn1.running_mean", "bn1.running_var"
  Initial initial = Initial::zeros;
  NodeId node = -1;  ///< the batch-norm node
  std::size_t elements = 0;
  std::size_t offset = 0;  ///< in elements, into the flat buffer
};

/// A node: an operation with its inputs, its output shape for one image, and its parameters.
struct Node {
  /// Name of the module in PyTorch ("layer1.0.conv1"), or a descriptive name ("layer1.0.add").
  std::string name;
  Operation operation;
  std::vector<NodeId> inputs;
  core::ImageShape output;
  std::vector<std::size_t> parameters;  ///< indices into Graph::parameters(): weight, bias
  /// Indices into Graph::statistics(): running mean, running variance.
  std::vector<std::size_t> statistics;
};

/// Description of a network, or of a part of one: nodes in forward order with inferred shapes,
/// parameters and costs. It is independent of batch size, precision and device; a backend compiles
/// it into a plan.
///
/// `append` and the functions `input` to `softmax_cross_entropy`, which call it, append a node and
/// return its id. They throw `Error` (internal) if the shapes of the inputs do not fit. `seal` must
/// be called once, after the last node has been appended.
///
/// A whole network begins with `Input` and ends with the loss. A part of a network (stage) may have
/// boundary inputs, which other stages compute, and boundary outputs, which other stages read.
class Graph {
 public:
  explicit Graph(std::string model) : model_(std::move(model)) {}

  NodeId append(std::string name, Operation operation, std::vector<NodeId> inputs);

  NodeId input(core::ImageShape image);
  NodeId convolution(std::string name, NodeId from, std::int64_t out_channels,
                     Convolution operation);
  NodeId batch_norm(std::string name, NodeId from);
  NodeId relu(std::string name, NodeId from);
  NodeId add(std::string name, NodeId left, NodeId right);
  NodeId max_pool(std::string name, NodeId from, MaxPool operation);
  NodeId global_average_pool(std::string name, NodeId from);
  NodeId flatten(std::string name, NodeId from);
  NodeId linear(std::string name, NodeId from, std::int64_t out_features);
  NodeId softmax_cross_entropy(std::string name, NodeId from, SoftmaxCrossEntropy operation);

  /// Completes the graph: assigns offsets to the parameters (backward order) and statistics
  /// (forward order). `outputs`: the boundary outputs; empty: the last node must be a loss, else
  /// this function throws `Error` (internal).
  void seal(std::vector<NodeId> outputs = {});

  /// Cuts a sealed network into `stages` contiguous stages, in forward order, so that the training
  /// FLOPs of the largest stage are as few as possible. Each stage but the first begins with one
  /// boundary input: the value, and the name of the node, of the boundary output of the stage
  /// before it. Nodes, parameters and statistics keep their names and order; offsets are those of
  /// the stage. The network is cut only where a single value is passed on, and not before batch
  /// norms and element-wise operations, because backends fuse them with the operation before them.
  /// Throws `Error` (usage) if the network cannot be cut into that many stages.
  std::vector<Graph> cut(int stages) const;
  /// As above, with `work` (nodes) of each node, for example measured times, instead of the FLOPs.
  std::vector<Graph> cut(int stages, std::span<const double> work) const;
  /// Cuts a sealed network into `firsts.size() + 1` stages. `firsts`: the names of the nodes with
  /// which the second stage, the third stage, and so on begin, or of the modules that begin with
  /// them ("layer2" for "layer2.0.shortcut.0"). Throws `Error` (usage) if a node does not
  /// exist, if the nodes are not in forward order, or if the network cannot be cut before one of
  /// them, for example inside a residual block.
  std::vector<Graph> cut_before(std::span<const std::string> firsts) const;

  const std::string& model() const { return model_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(NodeId id) const { return nodes_.at(static_cast<std::size_t>(id)); }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Statistic>& statistics() const { return statistics_; }

  /// Returns the ids of the `BoundaryInput` nodes.
  std::vector<NodeId> boundary_inputs() const;
  /// Returns the ids of the nodes whose values other stages read.
  const std::vector<NodeId>& boundary_outputs() const { return boundary_outputs_; }
  /// Returns whether the graph is a whole network: from the images to the loss.
  bool is_whole() const;

  /// Returns the number of classes: the channels of the loss node's input.
  std::int64_t classes() const;
  /// Returns the shape of the input images.
  core::ImageShape image() const;
  /// Returns the number of trainable values, without padding.
  std::size_t parameter_count() const;
  /// Returns the length of the flat parameter buffer in elements, including padding. Throws `Error`
  /// (internal) before `seal`.
  std::size_t parameter_elements() const;
  /// Returns the length of the flat statistics buffer in elements, including padding. Throws
  /// `Error` (internal) before `seal`.
  std::size_t statistic_elements() const;

  /// Returns the cost of one node.
  NodeCost cost(NodeId id) const;
  /// Returns the sum of the costs of all nodes.
  NodeCost total_cost() const;
  /// Returns a readable description of the operation of a node. Operations with the same
  /// description do the same work.
  std::string describe(NodeId id) const;

 private:
  std::vector<core::ImageShape> input_shapes(const Node& node) const;
  Graph stage(std::size_t first, std::size_t last) const;
  /// Returns the stages that begin at the nodes `firsts`; the first of them is 0.
  std::vector<Graph> stages(const std::vector<std::size_t>& firsts) const;

  std::string model_;
  std::vector<Node> nodes_;
  std::vector<Parameter> parameters_;
  std::vector<Statistic> statistics_;
  std::size_t parameter_elements_ = 0;
  std::size_t statistic_elements_ = 0;
  std::vector<NodeId> boundary_outputs_;
  bool sealed_ = false;
};

/// Fills the flat parameter buffer (graph.parameter_elements() values) with PyTorch's default
/// distributions: kaiming-uniform with a = sqrt(5), i.e. uniform in +-1/sqrt(fan_in), for weights
/// and biases of convolutions and linear layers; 1 for the weights and 0 for the biases of batch
/// norm. Padding is not changed. The result depends only on (graph, seed). Throws `Error`
/// (internal) if the buffer is too small.
void initialise_parameters(const Graph& graph, std::uint64_t seed, std::span<float> parameters);

/// Sets the running means to 0 and the running variances to 1 in the flat statistics buffer
/// (graph.statistic_elements() values). Throws `Error` (internal) if the buffer is too small.
void initialise_statistics(const Graph& graph, std::span<float> statistics);

}  // namespace lockstep::graph
