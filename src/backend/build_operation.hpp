// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <utility>

#include "fusion.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/graph/operations.hpp"
#include "operation.hpp"

namespace lockstep::backend {

/// Creates the operation of a step; null if the step has no inputs, because the plan writes its
/// output. Each backend has a type `Context` and, in its namespace, for each type of operation
/// either a function
///   std::unique_ptr<Operation> make_operation(const graph::TYPE&, const Context&, const Step&,
///                                             Operands);
/// or the reason why it does not support the operation,
///   constexpr std::string_view unsupported(const graph::TYPE&, const Context&);
/// If both are missing, this function does not compile. Throws `Error` (usage) if the operation is
/// not supported.
template <class Context>
std::unique_ptr<Operation> build_operation(const Context& context, const Step& step,
                                           Operands operands) {
  return step.operation.visit([&]<class Kind>(const Kind& operation) -> std::unique_ptr<Operation> {
    if constexpr (graph::is_source<Kind>) {
      return nullptr;
    } else if constexpr (requires { unsupported(operation, context); }) {
      core::fail(core::ExitStatus::usage, fmt::format("{}: {}", context.graph->node(step.node).name,
                                                      unsupported(operation, context)));
    } else {
      return make_operation(operation, context, step, std::move(operands));
    }
  });
}

}  // namespace lockstep::backend
