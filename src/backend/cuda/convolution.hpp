// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "operations.hpp"

namespace lockstep::backend::cuda {

/// Creates a convolution at a precision that can differ from that of the feature maps of the plan.
std::unique_ptr<Operation> make_convolution(const graph::Convolution& operation,
                                            core::Precision precision, const Context& context,
                                            const Step& step, Operands operands);

}  // namespace lockstep::backend::cuda
