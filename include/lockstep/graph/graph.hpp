#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/core/shape.hpp"

namespace lockstep::graph {

/// Index of a node in `Graph::nodes()`; a node's inputs have smaller indices.
using NodeId = std::int32_t;

// --- operations: what a node does to its inputs. All tensors are batches of C x H x W images. ---

struct Input {};  ///< the normalised images

/// Cross-correlation with square kernels; no dilation, no groups.
struct Convolution {
  std::int64_t kernel = 0;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  bool has_bias = false;
};

/// Batch normalisation per channel (Ioffe and Szegedy, 2015) with PyTorch's conventions: biased
/// variance normalises, unbiased variance enters the running variance.
struct BatchNorm {
  float epsilon = 1e-5f;
  float momentum = 0.1f;
};

struct Relu {};
struct Add {};  ///< two inputs of the same shape

struct MaxPool {
  std::int64_t kernel = 0;
  std::int64_t stride = 0;
  std::int64_t padding = 0;
};

struct GlobalAveragePool {};  ///< C x H x W -> C x 1 x 1

/// y = W x + b on C x 1 x 1 inputs.
struct Linear {};

/// Mean over the batch of -sum_k q_k log softmax(x)_k, q = (1 - s) one_hot(label) + s / classes.
struct SoftmaxCrossEntropy {
  float label_smoothing = 0;
};

using Operation = std::variant<Input, Convolution, BatchNorm, Relu, Add, MaxPool, GlobalAveragePool,
                               Linear, SoftmaxCrossEntropy>;

/// What a parameter starts as.
enum class Initial { kaiming_uniform, bias_uniform, ones, zeros };

/// A trained tensor. All parameters stand in one flat float32 buffer, in backward order (the last
/// layer first), each at a multiple of 64 bytes; gradients and momentum have the same layout.
struct Parameter {
  std::string name;  ///< as in PyTorch's state_dict: "layer1.0.conv1.weight"
  std::vector<std::int64_t>
      shape;  ///< KCRS for convolutions, (out, in) for linear, (channels) otherwise
  Initial initial = Initial::zeros;
  std::int64_t fan_in = 0;  ///< inputs of one output; bounds the initial values
  NodeId node = -1;         ///< whose parameter it is
  std::size_t elements = 0;
  std::size_t offset = 0;  ///< in elements, into the flat buffer
};

/// A running statistic of a batch norm, (channels); all stand in one flat float32 buffer, forward
/// order.
struct Statistic {
  std::string name;  ///< "bn1.running_mean", "bn1.running_var"
  Initial initial = Initial::zeros;
  NodeId node = -1;
  std::size_t elements = 0;
  std::size_t offset = 0;
};

struct Node {
  std::string
      name;  ///< the module's name in PyTorch ("layer1.0.conv1"), or what it is ("layer1.0.add")
  Operation operation;
  std::vector<NodeId> inputs;
  core::ImageShape output;
  std::vector<std::size_t> parameters;  ///< indices into Graph::parameters(): weight, then bias
  std::vector<std::size_t>
      statistics;  ///< indices into Graph::statistics(): running mean, running variance
};

/// Work of a node for one image. A multiply-add counts as two FLOPs.
struct NodeCost {
  double forward_flops = 0;
  double backward_data_flops = 0;    ///< gradient of the input; none where the input is the images
  double backward_weight_flops = 0;  ///< gradient of the weights
  double output_elements = 0;        ///< elements written by the forward pass

  double training_flops() const {
    return forward_flops + backward_data_flops + backward_weight_flops;
  }
};

/// A network as data: nodes in forward order with inferred shapes, parameters and costs. It knows
/// no batch size, precision or device: a backend compiles it into a plan.
///
/// The building functions append a node and return its id; they throw `Error` (internal) where
/// shapes do not fit. `seal` must be called once, last.
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

  /// Lays out parameters (backward order) and statistics (forward order).
  void seal();

  const std::string& model() const { return model_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(NodeId id) const { return nodes_.at(static_cast<std::size_t>(id)); }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Statistic>& statistics() const { return statistics_; }

  std::int64_t classes() const;            ///< outputs of the last linear node
  core::ImageShape image() const;          ///< the input's shape
  std::size_t parameter_count() const;     ///< trained values, without padding
  std::size_t parameter_elements() const;  ///< length of the flat buffer, padding included
  std::size_t statistic_elements() const;

  NodeCost cost(NodeId id) const;
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
