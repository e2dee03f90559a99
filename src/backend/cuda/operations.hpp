// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string_view>

#include "context.hpp"

// One function per operation of the graph (see `build_operation`). Each is defined in the file
// named after the operation, like its counterparts in the other backends.

namespace lockstep::backend::cuda {

template <class Type>
using Make = std::unique_ptr<Operation>(const Type&, const Context&, const Step&, Operands);

Make<graph::Convolution> make_operation;
Make<graph::BatchNorm> make_operation;
constexpr std::string_view unsupported(const graph::GroupNorm&, const Context&) {
  return "group norm is not implemented on GPUs; use --device cpu or a network with batch norm";
}
Make<graph::Relu> make_operation;
Make<graph::Add> make_operation;
Make<graph::MaxPool> make_operation;
Make<graph::GlobalAveragePool> make_operation;
Make<graph::Flatten> make_operation;
Make<graph::Dropout> make_operation;
Make<graph::Linear> make_operation;
/// Writes the sums over the batch to `DeviceParameters::result`.
Make<graph::SoftmaxCrossEntropy> make_operation;

/// An operation whose passes only launch kernels: it needs no memory besides its operands.
class KernelOperation : public Operation {
 public:
  KernelOperation(const Context& context, Operands given)
      : Operation(std::move(given)), context_(context) {}

 protected:
  const Context& context() const { return context_; }
  cudaStream_t stream() const { return context_.stream(); }

 private:
  const Context& context_;
};

/// Creates a convolution at a precision that can differ from that of the feature maps of the plan.
std::unique_ptr<Operation> make_convolution(const graph::Convolution& operation,
                                            core::Precision precision, const Context& context,
                                            const Step& step, Operands operands);

/// Computes `to += from` element-wise.
void add_into(const Context& context, const FeatureMap& from, const FeatureMap& to);

/// Copies a feature map to plain float32 values (images, channels, height, width) in device memory,
/// and the reverse.
void flatten(cudaStream_t stream, const FeatureMap& from, float* to);
void unflatten(cudaStream_t stream, const float* from, const FeatureMap& to);

}  // namespace lockstep::backend::cuda
