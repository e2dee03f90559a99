#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/core/shape.hpp"

namespace lockstep::graph {

/// Index of a node in `Graph::nodes()`. The inputs of a node have smaller indices.
using NodeId = std::int32_t;

// --- Operations of nodes. All tensors are batches of C x H x W images. ---

struct Input {};  ///< input of the network: the normalised images

/// 2-D convolution (cross-correlation) with square kernels, without dilation or groups.
struct Convolution {
  std::int64_t kernel = 0;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  bool has_bias = false;
};

/// Batch normalisation per channel (Ioffe and Szegedy, 2015) with PyTorch's conventions: the biased
/// variance normalises the batch, the unbiased variance updates the running variance.
struct BatchNorm {
  float epsilon = 1e-5f;
  float momentum = 0.1f;
};

struct Relu {};
struct Add {};  ///< sum of two inputs of the same shape

/// Max-pooling with square windows.
struct MaxPool {
  std::int64_t kernel = 0;
  std::int64_t stride = 0;
  std::int64_t padding = 0;
};

struct GlobalAveragePool {};  ///< C x H x W -> C x 1 x 1

/// Fully connected layer y = W x + b on C x 1 x 1 inputs.
struct Linear {};

/// Softmax cross-entropy loss: the mean over the batch of -sum_k q_k log softmax(x)_k with
/// q = (1 - s) one_hot(label) + s / classes and s = label_smoothing.
struct SoftmaxCrossEntropy {
  float label_smoothing = 0;
};

using Operation = std::variant<Input, Convolution, BatchNorm, Relu, Add, MaxPool, GlobalAveragePool,
                               Linear, SoftmaxCrossEntropy>;

/// Initial distribution of a parameter or statistic (see initialise.hpp).
enum class Initial { kaiming_uniform, bias_uniform, ones, zeros };

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

/// Computational cost of a node for one image. A multiply-add counts as two FLOPs.
struct NodeCost {
  double forward_flops = 0;
  /// Gradient of the input; 0 for a convolution or linear layer that reads the images.
  double backward_data_flops = 0;
  double backward_weight_flops = 0;  ///< gradient of the weights
  double output_elements = 0;        ///< elements written by the forward pass

  double training_flops() const {
    return forward_flops + backward_data_flops + backward_weight_flops;
  }
};

/// Description of a network: nodes in forward order with inferred shapes, parameters and costs. It
/// is independent of batch size, precision and device; a backend compiles it into a plan.
///
/// The functions `input` to `softmax_cross_entropy` append a node and return its id. They throw
/// `Error` (internal) if the shapes of their inputs do not fit. `seal` must be called once, after
/// the last node has been appended.
class Graph {
 public:
  explicit Graph(std::string model) : model_(std::move(model)) {}

  NodeId input(core::ImageShape image);
  NodeId convolution(std::string name, NodeId from, std::int64_t out_channels,
                     Convolution operation);
  NodeId batch_norm(std::string name, NodeId from, BatchNorm operation = {});
  NodeId relu(std::string name, NodeId from);
  NodeId add(std::string name, NodeId left, NodeId right);
  NodeId max_pool(std::string name, NodeId from, MaxPool operation);
  NodeId global_average_pool(std::string name, NodeId from);
  NodeId linear(std::string name, NodeId from, std::int64_t out_features);
  NodeId softmax_cross_entropy(std::string name, NodeId from, SoftmaxCrossEntropy operation);

  /// Completes the graph: assigns offsets to the parameters (backward order) and statistics
  /// (forward order). Throws `Error` (internal) if the last node is not a loss.
  void seal();

  const std::string& model() const { return model_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(NodeId id) const { return nodes_.at(static_cast<std::size_t>(id)); }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Statistic>& statistics() const { return statistics_; }

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

 private:
  NodeId append(std::string name, Operation operation, std::vector<NodeId> inputs,
                core::ImageShape output);
  void add_parameter(NodeId node, const char* suffix, std::vector<std::int64_t> shape,
                     Initial initial, std::int64_t fan_in);

  std::string model_;
  std::vector<Node> nodes_;
  std::vector<Parameter> parameters_;
  std::vector<Statistic> statistics_;
  std::size_t parameter_elements_ = 0;
  std::size_t statistic_elements_ = 0;
  bool sealed_ = false;
};

}  // namespace lockstep::graph
