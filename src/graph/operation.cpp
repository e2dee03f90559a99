// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/graph/operation.hpp"

#include "lockstep/core/error.hpp"
#include "lockstep/graph/operations.hpp"

namespace lockstep::graph {

using core::ImageShape;

Traits Operation::traits() const {
  return visit([](const auto& operation) { return operation.traits(); });
}

ImageShape Operation::output(Shapes inputs) const {
  core::check(inputs.size() == traits().inputs, "an operation has all its inputs");
  return visit([&](const auto& operation) { return operation.output(inputs); });
}

std::vector<ParameterSpec> Operation::parameters(Shapes inputs) const {
  return visit([&](const auto& operation) -> std::vector<ParameterSpec> {
    if constexpr (requires { operation.parameters(inputs); }) return operation.parameters(inputs);
    return {};
  });
}

std::vector<StatisticSpec> Operation::statistics(Shapes inputs) const {
  return visit([&](const auto& operation) -> std::vector<StatisticSpec> {
    if constexpr (requires { operation.statistics(inputs); }) return operation.statistics(inputs);
    return {};
  });
}

NodeCost Operation::cost(Shapes inputs, ImageShape output) const {
  if (inputs.empty()) return {.output_elements = static_cast<double>(output.elements())};
  return visit([&](const auto& operation) {
    if constexpr (requires { operation.cost(inputs, output); })
      return operation.cost(inputs, output);
    return elementwise_cost(operation.traits(), inputs, output);
  });
}

std::string Operation::description(Shapes inputs, ImageShape output) const {
  return visit([&](const auto& operation) { return operation.description(inputs, output); });
}

std::optional<std::int64_t> Operation::values_per_variance(Shapes inputs,
                                                           std::int64_t images) const {
  return visit([&](const auto& operation) -> std::optional<std::int64_t> {
    if constexpr (requires { operation.values_per_variance(inputs, images); })
      return operation.values_per_variance(inputs, images);
    return std::nullopt;
  });
}

}  // namespace lockstep::graph
