#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/core/shape.hpp"

// The operations of a network. An operation is a struct with its attributes and its properties:
// everything that the program needs to know about it except how a device computes it. All tensors
// are batches of C x H x W images; shapes and costs are those of one image.
//
// A struct has the member function `output`. It may have the other members, for which defaults
// exist (see the functions at the end of this file):
//
//   core::ImageShape output(Shapes inputs) const          shape of the output; throws `Error`
//                                                         (internal) if the inputs do not fit
//   static constexpr std::size_t input_count              number of inputs [1]
//   OutputForm form, static or not                        [OutputForm::feature_map]
//   std::vector<ParameterSpec> parameters(Shapes) const   trainable tensors [none]
//   std::vector<StatisticSpec> statistics(Shapes) const   running statistics [none]
//   NodeCost cost(Shapes inputs, core::ImageShape output) const
//                                                         [one FLOP per input value in each pass]
//   std::string description(Shapes inputs, core::ImageShape output) const
//                                                         [name of the node and shape of the input]

namespace lockstep::graph {

using Shapes = std::span<const core::ImageShape>;

/// Form in which a device stores the output of an operation.
enum class OutputForm {
  feature_map,   ///< in the layout and data type of the feature maps of the plan
  vector,        ///< C values per image in float32, without pixels
  same_as_input  ///< as the first input
};

/// Initial distribution of a parameter or statistic (see initialise.hpp).
enum class Initial { kaiming_uniform, bias_uniform, ones, zeros };

/// A trainable tensor of an operation.
struct ParameterSpec {
  const char* suffix;               ///< appended to the name of the node: ".weight"
  std::vector<std::int64_t> shape;  ///< as in PyTorch's state_dict
  Initial initial = Initial::zeros;
  std::int64_t fan_in = 0;  ///< inputs per output value; determines the range of the initial values
};

/// A running statistic of an operation; one value per channel.
struct StatisticSpec {
  const char* suffix;
  Initial initial = Initial::zeros;
  std::int64_t channels = 0;
};

/// Computational cost for one image. A multiply-add counts as two FLOPs. Values are elements of
/// feature maps; each map counts once per pass over it.
struct NodeCost {
  double forward_flops = 0;
  /// Gradient of the input; 0 if the input needs no gradient (images).
  double backward_data_flops = 0;
  double backward_weight_flops = 0;  ///< gradient of the weights
  double output_elements = 0;        ///< values written by the forward pass
  double forward_values = 0;         ///< values read and written by the forward pass
  /// Values read and written by the backward pass; if it computes the gradients of the input and of
  /// the weights separately, by each of the two.
  double backward_values = 0;

  double training_flops() const {
    return forward_flops + backward_data_flops + backward_weight_flops;
  }
};

/// The normalised images, which need no gradient.
struct Input {
  static constexpr std::size_t input_count = 0;
  core::ImageShape shape;

  core::ImageShape output(Shapes) const { return shape; }
};

/// A value that another part of the network computes (see Graph::cut); it needs a gradient.
struct BoundaryInput {
  static constexpr std::size_t input_count = 0;
  core::ImageShape shape;
  OutputForm form = OutputForm::feature_map;  ///< never `same_as_input`

  core::ImageShape output(Shapes) const { return shape; }
};

/// 2-D convolution (cross-correlation) with square kernels, without dilation or groups.
struct Convolution {
  std::int64_t kernel = 0;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  bool has_bias = false;
  std::int64_t out_channels = 0;

  core::ImageShape output(Shapes inputs) const;
  std::vector<ParameterSpec> parameters(Shapes inputs) const;
  NodeCost cost(Shapes inputs, core::ImageShape output) const;
  std::string description(Shapes inputs, core::ImageShape output) const;
};

/// Batch normalisation per channel (Ioffe and Szegedy, 2015) with PyTorch's conventions: the biased
/// variance normalises the batch, the unbiased variance updates the running variance.
struct BatchNorm {
  float epsilon = 1e-5f;
  float momentum = 0.1f;

  core::ImageShape output(Shapes inputs) const { return inputs[0]; }
  std::vector<ParameterSpec> parameters(Shapes inputs) const;
  std::vector<StatisticSpec> statistics(Shapes inputs) const;
  NodeCost cost(Shapes inputs, core::ImageShape output) const;
  std::string description(Shapes inputs, core::ImageShape output) const;
};

/// max(x, 0).
struct Relu {
  static constexpr OutputForm form = OutputForm::same_as_input;

  core::ImageShape output(Shapes inputs) const { return inputs[0]; }
  NodeCost cost(Shapes inputs, core::ImageShape output) const;
};

/// Sum of two inputs of the same shape.
struct Add {
  static constexpr std::size_t input_count = 2;
  static constexpr OutputForm form = OutputForm::same_as_input;

  core::ImageShape output(Shapes inputs) const;
  NodeCost cost(Shapes inputs, core::ImageShape output) const;
};

/// Max-pooling with square windows.
struct MaxPool {
  std::int64_t kernel = 0;
  std::int64_t stride = 0;
  std::int64_t padding = 0;

  core::ImageShape output(Shapes inputs) const;
};

/// Mean over the pixels: C x H x W -> C x 1 x 1.
struct GlobalAveragePool {
  static constexpr OutputForm form = OutputForm::vector;

  core::ImageShape output(Shapes inputs) const { return {inputs[0].channels, 1, 1}; }
};

/// C x H x W -> (C H W) x 1 x 1, in the order (channel, row, column), as `torch.flatten(x, 1)`.
struct Flatten {
  static constexpr OutputForm form = OutputForm::vector;

  core::ImageShape output(Shapes inputs) const { return {inputs[0].elements(), 1, 1}; }
};

/// Fully connected layer y = W x + b on C x 1 x 1 inputs.
struct Linear {
  static constexpr OutputForm form = OutputForm::vector;
  std::int64_t out_features = 0;

  core::ImageShape output(Shapes inputs) const;
  std::vector<ParameterSpec> parameters(Shapes inputs) const;
  NodeCost cost(Shapes inputs, core::ImageShape output) const;
};

/// Sets each value to 0 with probability `probability` in training, and multiplies the others by
/// 1 / (1 - probability); the identity in inference (as PyTorch).
struct Dropout {
  static constexpr OutputForm form = OutputForm::same_as_input;
  float probability = 0.5f;  ///< from 0 to below 1
  std::uint32_t layer = 0;   ///< layers with the same number have the same mask

  core::ImageShape output(Shapes inputs) const;
};

/// Softmax cross-entropy loss: the mean over the batch of -sum_k q_k log softmax(x)_k with
/// q = (1 - s) one_hot(label) + s / classes and s = label_smoothing.
struct SoftmaxCrossEntropy {
  static constexpr OutputForm form = OutputForm::vector;
  float label_smoothing = 0;

  core::ImageShape output(Shapes inputs) const;
};

/// Each backend implements every alternative; a missing implementation does not compile.
using Operation = std::variant<Input, BoundaryInput, Convolution, BatchNorm, Relu, Add, MaxPool,
                               GlobalAveragePool, Flatten, Linear, Dropout, SoftmaxCrossEntropy>;

/// Operations without inputs; a plan does not compute them.
template <class Kind>
constexpr bool is_source = requires {
  requires Kind::input_count == 0;
};

// The properties of any operation.

bool is_input(const Operation& operation);  ///< whether the operation is `Input`
std::size_t input_count(const Operation& operation);
OutputForm output_form(const Operation& operation);
core::ImageShape output_shape(const Operation& operation, Shapes inputs);
std::vector<ParameterSpec> parameters_of(const Operation& operation, Shapes inputs);
std::vector<StatisticSpec> statistics_of(const Operation& operation, Shapes inputs);
/// Returns the cost under the condition that all inputs need gradients.
NodeCost cost_of(const Operation& operation, Shapes inputs, core::ImageShape output);
/// Returns a readable description of the operation in the node `name`.
std::string description_of(const Operation& operation, std::string_view name, Shapes inputs,
                           core::ImageShape output);

}  // namespace lockstep::graph
