// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <string_view>

#include "lockstep/graph/models.hpp"

namespace lockstep::graph {

/// A network that `make_model` can make.
struct Model {
  std::string_view name;
  Graph (*make)(const ModelOptions&);
};

/// Return the networks of each family.
std::span<const Model> resnets();
std::span<const Model> vggs();

}  // namespace lockstep::graph
