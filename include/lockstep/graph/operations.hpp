// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// All operations, for code that treats each of them by its type (`Operation::visit`).

#include "lockstep/graph/operations/add.hpp"
#include "lockstep/graph/operations/batch_norm.hpp"
#include "lockstep/graph/operations/convolution.hpp"
#include "lockstep/graph/operations/dropout.hpp"
#include "lockstep/graph/operations/flatten.hpp"
#include "lockstep/graph/operations/global_average_pool.hpp"
#include "lockstep/graph/operations/group_norm.hpp"
#include "lockstep/graph/operations/input.hpp"
#include "lockstep/graph/operations/linear.hpp"
#include "lockstep/graph/operations/max_pool.hpp"
#include "lockstep/graph/operations/relu.hpp"
#include "lockstep/graph/operations/softmax_cross_entropy.hpp"

namespace lockstep::graph {

/// Whether operations of this type have no inputs, so that a plan writes their output.
template <class Type>
constexpr bool is_source = Type{}.traits().inputs == 0;

}  // namespace lockstep::graph
