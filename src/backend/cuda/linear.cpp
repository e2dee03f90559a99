// SPDX-License-Identifier: BSD-3-Clause
// Fully connected layer on float32 vectors, at every precision: a 1x1 convolution of images of one
// pixel. Products are computed from factors rounded to TF32, except at precision fp32 and on GPUs
// without TF32.

#include "lockstep/graph/operations/linear.hpp"
#include "lockstep/graph/operations/convolution.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

std::unique_ptr<Operation> make_operation(const graph::Linear& operation, const Context& context,
                                          const Step& step, Operands operands) {
  constexpr int ampere = 80;
  const bool is_rounded = context.options.precision != core::Precision::fp32 &&
                          context.target->info().compute_capability >= ampere;
  return make_convolution({.kernel = 1, .has_bias = true, .out_channels = operation.out_features},
                          is_rounded ? core::Precision::tf32 : core::Precision::fp32, context, step,
                          std::move(operands));
}

}  // namespace lockstep::backend::cuda
