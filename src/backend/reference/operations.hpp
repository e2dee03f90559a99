#pragma once

// The operations as plain loops in float64: the reference implementation with which the other
// backends are compared. Each operation of the graph has an overload of `forward` and of `backward`
// in the file named after it; a missing overload does not compile.
//
// `x` is the input of an operation, `y` its output; `dx` and `dy` are the gradients of the loss
// with respect to them. Every backward function ADDS to `dx`, because the gradient of a tensor with
// several consumers is the sum of their gradients; gradients of parameters are overwritten.
// Parameters have the layout of graph::Parameter.

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/replica.hpp"
#include "lockstep/graph/graph.hpp"
#include "tensor.hpp"

namespace lockstep::backend::reference {

/// Converts uint8 images (n, C, H, W) to normalised values.
void normalise(const Normalisation& normalisation, std::span<const std::uint8_t> images, Tensor& y);

/// Running statistics of one batch norm, (channels) each.
struct RunningStatistics {
  std::span<float> mean;
  std::span<float> variance;
};

/// What all operations of a plan share.
struct PlanData {
  PlanOptions options{};
  std::vector<std::int32_t> labels{};  ///< of the uploaded batch
  BatchResult result{};                ///< of the last forward pass
  std::int64_t step = 0;               ///< number of the training step, for random numbers
};

/// The tensors of one node.
struct NodeData {
  std::vector<const Tensor*> inputs;
  Tensor y, dy;
  std::vector<Tensor*> input_gradients;  ///< null if the gradient is not needed
  std::span<double> weight, bias;        ///< empty if the node has no such parameter
  std::span<double> dweight, dbias;
  RunningStatistics running;
  std::vector<double> saved;  ///< `saved_values` values, from the forward to the backward pass
  std::vector<float> sums;    ///< `exchanged_values` values: buffer of the sums over replicas

  const Tensor& x() const { return *inputs[0]; }
  Tensor* dx() const { return input_gradients[0]; }
};

/// Returns the number of values that an operation saves from its forward to its backward pass, for
/// `batch` images with an input of shape `x` and an output of shape `y` each.
template <class Kind>
std::size_t saved_values(const Kind&, std::size_t, core::ImageShape, core::ImageShape) {
  return 0;
}
std::size_t saved_values(const graph::BatchNorm&, std::size_t batch, core::ImageShape x,
                         core::ImageShape y);
std::size_t saved_values(const graph::MaxPool&, std::size_t batch, core::ImageShape x,
                         core::ImageShape y);
std::size_t saved_values(const graph::SoftmaxCrossEntropy&, std::size_t batch, core::ImageShape x,
                         core::ImageShape y);

/// Returns the number of values that an operation sums over the replicas at once.
template <class Kind>
std::size_t exchanged_values(const Kind&, core::ImageShape) {
  return 0;
}
std::size_t exchanged_values(const graph::BatchNorm&, core::ImageShape x);

// The plan writes the output of operations without inputs.
template <class Kind>
requires graph::is_source<Kind>
void forward(const Kind&, NodeData&, PlanData&) {}
template <class Kind>
requires graph::is_source<Kind>
void backward(const Kind&, NodeData&, const PlanData&) {}

void forward(const graph::Convolution&, NodeData&, PlanData&);
void backward(const graph::Convolution&, NodeData&, const PlanData&);

/// Collective if `PlanOptions::batch_norm_sum` is not null. In training, normalises with the
/// statistics of the batch (of all replicas) and updates the running statistics; in inference,
/// normalises with the running statistics. The gradients of the parameters are those of this
/// replica.
void forward(const graph::BatchNorm&, NodeData&, PlanData&);
void backward(const graph::BatchNorm&, NodeData&, const PlanData&);

void forward(const graph::Relu&, NodeData&, PlanData&);
void backward(const graph::Relu&, NodeData&, const PlanData&);

void forward(const graph::Add&, NodeData&, PlanData&);
void backward(const graph::Add&, NodeData&, const PlanData&);

void forward(const graph::MaxPool&, NodeData&, PlanData&);
void backward(const graph::MaxPool&, NodeData&, const PlanData&);

void forward(const graph::GlobalAveragePool&, NodeData&, PlanData&);
void backward(const graph::GlobalAveragePool&, NodeData&, const PlanData&);

void forward(const graph::Flatten&, NodeData&, PlanData&);
void backward(const graph::Flatten&, NodeData&, const PlanData&);

void forward(const graph::Dropout&, NodeData&, PlanData&);
void backward(const graph::Dropout&, NodeData&, const PlanData&);

void forward(const graph::Linear&, NodeData&, PlanData&);
void backward(const graph::Linear&, NodeData&, const PlanData&);

/// Writes the loss of each image to `y`, and the sums over the batch to `PlanData::result`. The
/// gradient is that of the mean loss over the batch.
void forward(const graph::SoftmaxCrossEntropy&, NodeData&, PlanData&);
void backward(const graph::SoftmaxCrossEntropy&, NodeData&, const PlanData&);

}  // namespace lockstep::backend::reference
