// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/image.hpp"

// The operations of a network. An operation is a struct with its attributes and its properties:
// everything that the program needs to know about it except how a device computes it. All tensors
// are batches of C x H x W images; shapes and costs are those of one image. Each struct is in a
// header of its own in `operations/`. It has the member functions
//
//   constexpr Traits traits() const
//   core::ImageShape output(Shapes inputs) const    shape of the output; throws `Error` (internal)
//                                                   if the inputs do not fit
//   std::string description(Shapes inputs, core::ImageShape output) const
//                                                   readable; operations with the same description
//                                                   do the same work
//
// and may have others, for which defaults exist:
//
//   std::vector<ParameterSpec> parameters(Shapes inputs) const   trainable tensors [none]
//   std::vector<StatisticSpec> statistics(Shapes inputs) const   running statistics [none]
//   std::int64_t values_per_variance(Shapes inputs, std::int64_t images) const
//                                                   number of values of which each variance is
//                                                   computed in training [no variance is computed]
//   NodeCost cost(Shapes inputs, core::ImageShape output) const
//                                                   [one FLOP per value of the first input in each
//                                                   pass, and the accesses of `Traits`]

namespace lockstep::graph {

using Shapes = std::span<const core::ImageShape>;

/// Form in which a device stores the output of an operation.
enum class OutputForm {
  feature_map,   ///< in the layout and data type of the feature maps of the plan
  vector,        ///< C values per image in float32, without pixels
  same_as_input  ///< as the first input
};

/// Properties by which passes and backends treat an operation, whatever its type.
struct Traits {
  std::size_t inputs = 1;  ///< number of inputs; 0: a plan writes the output
  OutputForm form = OutputForm::feature_map;
  bool reads_vectors = false;  ///< the inputs have the form `OutputForm::vector`
  /// Backends compute an addition and a ReLU that follow in the same pass (see backend::Step).
  bool takes_add_and_relu = false;
  bool is_loss = false;  ///< the last operation of a whole network
  /// Accesses of a memory-bound operation to maps of the size of the output, in the forward and in
  /// the backward pass; 0: one to the input and one to the output.
  int forward_maps = 0, backward_maps = 0;

  /// Returns whether a network is not cut before the operation, because backends fuse it with the
  /// operation before it, or it does little work on the value of that operation.
  constexpr bool stays_with_previous() const {
    return form == OutputForm::same_as_input || takes_add_and_relu || is_loss;
  }
};

/// Initial distribution of a parameter or statistic (see `initialise_parameters`).
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

// Functions for the properties of several operations.

/// Returns the cost of a memory-bound operation.
NodeCost elementwise_cost(Traits traits, Shapes inputs, core::ImageShape output);
/// Returns the cost of an operation whose outputs are sums of `terms` products each.
NodeCost product_cost(std::int64_t terms, Shapes inputs, core::ImageShape output);
/// Returns the weights (1) and biases (0) of the channels of the first input.
std::vector<ParameterSpec> channel_parameters(Shapes inputs);
/// Returns the shape of the output of a convolution or pooling with square windows; a side is 0 if
/// the window does not fit.
core::ImageShape window_output(std::int64_t channels, core::ImageShape input, std::int64_t kernel,
                               std::int64_t stride, std::int64_t padding);
/// Returns "KxK", followed by " stride S" if the stride is not 1.
std::string window_text(std::int64_t kernel, std::int64_t stride);
/// Returns "CxHxW".
std::string text(core::ImageShape shape);

}  // namespace lockstep::graph
