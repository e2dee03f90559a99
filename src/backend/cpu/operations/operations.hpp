// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "../../fusion.hpp"
#include "../context.hpp"

// One function per operation of the graph (see `build_operation`). Each is defined in the file
// named after the operation, like its counterparts in the other backends.

namespace lockstep::backend::cpu {

template <class Type>
using Make = std::unique_ptr<Operation>(const Type&, const Context&, const Step&, Operands);

Make<graph::Convolution> make_operation;
Make<graph::BatchNorm> make_operation;
Make<graph::GroupNorm> make_operation;
Make<graph::Relu> make_operation;
Make<graph::Add> make_operation;
Make<graph::MaxPool> make_operation;
Make<graph::GlobalAveragePool> make_operation;
Make<graph::Flatten> make_operation;
Make<graph::Dropout> make_operation;
Make<graph::Linear> make_operation;
Make<graph::SoftmaxCrossEntropy> make_operation;

/// Calls `work` with the C++ type that corresponds to `type` as template argument.
template <class Work>
auto with_type(core::DataType type, Work&& work) {
  if (type == core::DataType::bfloat16) return work.template operator()<core::BFloat16>();
  return work.template operator()<float>();
}

/// Creates `Kind<T>(arguments...)`, where T is the C++ type that corresponds to `type`.
template <template <class> class Kind, class... Arguments>
std::unique_ptr<Operation> make_for(core::DataType type, Arguments&&... arguments) {
  return with_type(type, [&]<class T>() -> std::unique_ptr<Operation> {
    return std::make_unique<Kind<T>>(std::forward<Arguments>(arguments)...);
  });
}

/// Computes to += from.
void add_into(const FeatureMap& from, const FeatureMap& to);

/// Layouts of feature maps that suit the convolutions of a plan: those that oneDNN prefers, or one
/// that the kernels of `cells` support. If the options leave the choice of algorithms to timing,
/// the convolutions are timed in both layouts, each with its fastest algorithm.
struct PreferredLayouts {
  MapLayout activations = MapLayout::planar;
  MapLayout images = MapLayout::planar;
};
PreferredLayouts preferred_layouts(const Context& context);

}  // namespace lockstep::backend::cpu
