#pragma once

#include <cstdint>
#include <memory>

#include "../fusion.hpp"
#include "context.hpp"

// One overload per operation of the graph (see build_operation.hpp). Each is defined in the file
// named after the operation, like its counterparts in the other backends.

namespace lockstep::backend::cuda {

std::unique_ptr<Operation> make_operation(const graph::Convolution&, const Context&, const Step&,
                                          Operands);
std::unique_ptr<Operation> make_operation(const graph::BatchNorm&, const Context&, const Step&,
                                          Operands);
std::unique_ptr<Operation> make_operation(const graph::Relu&, const Context&, const Step&,
                                          Operands);
std::unique_ptr<Operation> make_operation(const graph::Add&, const Context&, const Step&, Operands);
std::unique_ptr<Operation> make_operation(const graph::MaxPool&, const Context&, const Step&,
                                          Operands);
std::unique_ptr<Operation> make_operation(const graph::GlobalAveragePool&, const Context&,
                                          const Step&, Operands);
std::unique_ptr<Operation> make_operation(const graph::Flatten&, const Context&, const Step&,
                                          Operands);
std::unique_ptr<Operation> make_operation(const graph::Dropout&, const Context&, const Step&,
                                          Operands);
std::unique_ptr<Operation> make_operation(const graph::Linear&, const Context&, const Step&,
                                          Operands);
/// Writes the sums over the batch to `DeviceParameters::result`.
std::unique_ptr<Operation> make_operation(const graph::SoftmaxCrossEntropy&, const Context&,
                                          const Step&, Operands);

/// Computes `to += from` element-wise.
void add_into(const Context& context, const FeatureMap& from, const FeatureMap& to);

}  // namespace lockstep::backend::cuda
