// SPDX-License-Identifier: BSD-3-Clause
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
#include "lockstep/core/image.hpp"
#include "lockstep/core/replica.hpp"
#include "lockstep/graph/graph.hpp"

namespace lockstep::backend::reference {

/// A batch of C x H x W feature maps in float64: NCHW, contiguous.
struct Tensor {
  std::int64_t batch = 0;  ///< images in use; at most the number that memory was allocated for
  core::ImageShape shape;
  std::vector<double> values;

  Tensor() = default;
  Tensor(std::int64_t images, core::ImageShape image_shape)
      : batch(images), shape(image_shape), values(images * image_shape.elements()) {}

  /// Returns row `y` of one channel of an image: `width` values.
  double* row(std::int64_t image, std::int64_t channel, std::int64_t y) {
    return values.data() + offset(image, channel, y);
  }
  const double* row(std::int64_t image, std::int64_t channel, std::int64_t y) const {
    return values.data() + offset(image, channel, y);
  }

  /// Returns all pixels of one channel of an image.
  std::span<double> plane(std::int64_t image, std::int64_t channel) {
    return {row(image, channel, 0), static_cast<std::size_t>(shape.pixels())};
  }
  std::span<const double> plane(std::int64_t image, std::int64_t channel) const {
    return {row(image, channel, 0), static_cast<std::size_t>(shape.pixels())};
  }

  /// Returns all values of the images in use.
  std::span<double> all() {
    return {values.data(), static_cast<std::size_t>(batch * shape.elements())};
  }
  std::span<const double> all() const {
    return {values.data(), static_cast<std::size_t>(batch * shape.elements())};
  }

 private:
  std::int64_t offset(std::int64_t image, std::int64_t channel, std::int64_t y) const {
    return ((image * shape.channels + channel) * shape.height + y) * shape.width;
  }
};

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
  // Values that the operation preserves from its forward to its backward pass, and its buffer of
  // sums over the replicas. It allocates both in its first forward pass.
  std::vector<double> saved;
  std::vector<float> sums;

  const Tensor& x() const { return *inputs[0]; }
  Tensor* dx() const { return input_gradients[0]; }
};

// Types of the functions of an operation.
template <class Kind>
using Forward = void(const Kind&, NodeData&, PlanData&);
template <class Kind>
using Backward = void(const Kind&, NodeData&, const PlanData&);

Forward<graph::Convolution> forward;
Backward<graph::Convolution> backward;

/// Collective if `PlanOptions::batch_norm_sum` is not null. In training, normalises with the
/// statistics of the batch (of all replicas) and updates the running statistics; in inference,
/// normalises with the running statistics. The gradients of the parameters are those of this
/// replica.
Forward<graph::BatchNorm> forward;
Backward<graph::BatchNorm> backward;

Forward<graph::GroupNorm> forward;
Backward<graph::GroupNorm> backward;

Forward<graph::Relu> forward;
Backward<graph::Relu> backward;

Forward<graph::Add> forward;
Backward<graph::Add> backward;

Forward<graph::MaxPool> forward;
Backward<graph::MaxPool> backward;

Forward<graph::GlobalAveragePool> forward;
Backward<graph::GlobalAveragePool> backward;

Forward<graph::Flatten> forward;
Backward<graph::Flatten> backward;

Forward<graph::Dropout> forward;
Backward<graph::Dropout> backward;

Forward<graph::Linear> forward;
Backward<graph::Linear> backward;

/// Writes the loss of each image to `y`, and the sums over the batch to `PlanData::result`. The
/// gradient is that of the mean loss over the batch.
Forward<graph::SoftmaxCrossEntropy> forward;
Backward<graph::SoftmaxCrossEntropy> backward;

}  // namespace lockstep::backend::reference
