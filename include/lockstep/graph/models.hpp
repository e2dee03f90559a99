#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/graph/graph.hpp"

namespace lockstep::graph {

struct ModelOptions {
  std::int64_t classes = 10;
  core::ImageShape image{3, 32, 32};
  float label_smoothing = 0;
};

/// Names that `make_model` knows, for messages and `--help`.
std::vector<std::string> model_names();

/// Builds a network by name, or throws `Error` (usage) listing the names there are, or saying why
/// the image is too small for it.
Graph make_model(const std::string& name, const ModelOptions& options);

}  // namespace lockstep::graph
