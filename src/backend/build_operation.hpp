#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include "fusion.hpp"
#include "operation.hpp"

namespace lockstep::backend {

/// Creates the operation of a step; null if the step has no inputs, because the plan writes its
/// output. Each backend has a type `Context` and, in its namespace, one overload
///   std::unique_ptr<Operation> make_operation(const graph::KIND&, const Context&, const Step&,
///                                             Operands)
/// for each alternative of `graph::Operation`. If an overload is missing, this function does not
/// compile.
template <class Context>
std::unique_ptr<Operation> build_operation(const Context& context, const Step& step,
                                           Operands operands) {
  return std::visit(
      [&]<class Kind>(const Kind& operation) -> std::unique_ptr<Operation> {
        if constexpr (graph::is_source<Kind>) {
          return nullptr;
        } else {
          return make_operation(operation, context, step, std::move(operands));
        }
      },
      step.operation);
}

}  // namespace lockstep::backend
