// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/core/image.hpp"
#include "lockstep/graph/operation_properties.hpp"

namespace lockstep::graph {

struct Input;
struct BoundaryInput;
struct Convolution;
struct BatchNorm;
struct GroupNorm;
struct Relu;
struct Add;
struct MaxPool;
struct GlobalAveragePool;
struct Flatten;
struct Linear;
struct Dropout;
struct SoftmaxCrossEntropy;

/// An operation of any of the types above, whose properties operation_properties.hpp describes.
/// Copies share the attributes, which do not change. Only code that creates an operation or reads
/// its attributes includes the header of its type; `visit` needs all of them (operations.hpp).
class Operation {
  template <class... Types>
  using OneOf = std::variant<std::shared_ptr<const Types>...>;

 public:
  template <class Type>
  requires(!std::same_as<Type, Operation>)
      Operation(Type operation)  // implicit, as the constructor of std::variant
      : value_(std::in_place_type<std::shared_ptr<const Type>>,
               std::make_shared<const Type>(std::move(operation))) {}

  /// Returns the operation if it has the type, otherwise null.
  template <class Type>
  const Type* get_if() const {
    const auto* const pointer = std::get_if<std::shared_ptr<const Type>>(&value_);
    return pointer != nullptr ? pointer->get() : nullptr;
  }
  template <class Type>
  bool is() const {
    return get_if<Type>() != nullptr;
  }

  /// Calls `visitor` with the operation. Does not compile if the visitor does not accept every
  /// type.
  template <class Visitor>
  decltype(auto) visit(const Visitor& visitor) const {
    return std::visit([&](const auto& pointer) -> decltype(auto) { return visitor(*pointer); },
                      value_);
  }

  Traits traits() const;
  core::ImageShape output(Shapes inputs) const;
  std::vector<ParameterSpec> parameters(Shapes inputs) const;
  std::vector<StatisticSpec> statistics(Shapes inputs) const;
  /// Returns the cost under the condition that all inputs need gradients.
  NodeCost cost(Shapes inputs, core::ImageShape output) const;
  std::string description(Shapes inputs, core::ImageShape output) const;
  /// Returns the number of values of which each variance is computed if the operation is applied to
  /// `images` images in training; nothing if it computes no variance.
  std::optional<std::int64_t> values_per_variance(Shapes inputs, std::int64_t images) const;

 private:
  OneOf<Input, BoundaryInput, Convolution, BatchNorm, GroupNorm, Relu, Add, MaxPool,
        GlobalAveragePool, Flatten, Linear, Dropout, SoftmaxCrossEntropy>
      value_;
};

}  // namespace lockstep::graph
