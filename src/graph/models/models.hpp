// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lockstep/graph/models.hpp"
#include "lockstep/graph/operations/max_pool.hpp"

namespace lockstep::graph {

/// A network that `make_model` can make.
struct Model {
  std::string_view name;
  Graph (*make)(const ModelOptions&);
};

/// Return the networks of each family.
std::span<const Model> resnets();
std::span<const Model> vggs();

/// Appends a ReLU and a max-pool; returns the second of them. With `ModelOptions::swap_relu_pool`,
/// the max-pool is first, so that ReLU processes fewer values. Losses and gradients are equal, not
/// only up to rounding, if all activations are finite, because max(ReLU(x)) = ReLU(max(x)), and
/// because in a window without a positive value both orders give the gradient 0 for every element,
/// for whichever of them the pooling selects.
NodeId relu_and_pool(Graph& graph, const std::string& relu_name, const std::string& pool_name,
                     NodeId x, MaxPool pool, const ModelOptions& options);

}  // namespace lockstep::graph
