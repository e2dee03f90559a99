// SPDX-License-Identifier: BSD-3-Clause
#include "models.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/core/error.hpp"

namespace lockstep::graph {

namespace {

std::vector<Model> models() {
  std::vector<Model> all;
  for (const std::span<const Model> family : {resnets(), vggs()})
    all.insert(all.end(), family.begin(), family.end());
  return all;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Model& model : models()) names.emplace_back(model.name);
  return names;
}

NodeId relu_and_pool(Graph& graph, const std::string& relu_name, const std::string& pool_name,
                     NodeId x, MaxPool pool, const ModelOptions& options) {
  return options.swap_relu_pool ? graph.relu(relu_name, graph.max_pool(pool_name, x, pool))
                                : graph.max_pool(pool_name, graph.relu(relu_name, x), pool);
}

Graph make_model(const std::string& name, const ModelOptions& options) {
  const std::vector<Model> all = models();
  const auto model = std::ranges::find(all, name, &Model::name);
  if (model != all.end()) return model->make(options);
  core::fail(core::ExitStatus::usage, fmt::format("unknown model '{}'; there are: {}", name,
                                                  fmt::join(model_names(), ", ")));
}

}  // namespace lockstep::graph
