// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/graph/graph.hpp"

namespace lockstep::graph {

/// Selection of a network.
struct NetworkOptions {
  std::string model = "resnet18-cifar";
  std::int64_t classes = 0;  ///< 0: the number of classes of the dataset
  double label_smoothing = 0;
  bool swap_relu_pool = false;  ///< compute max-pool before ReLU
};

/// What a network is built for: the properties of the dataset are known here.
struct ModelOptions {
  std::int64_t classes = 10;
  core::ImageShape image{3, 32, 32};
  float label_smoothing = 0;
  bool swap_relu_pool = false;  ///< compute max-pool before a ReLU that precedes it
};

/// Returns the names that `make_model` accepts, for messages and `--help`.
std::vector<std::string> model_names();

/// Returns the network with the given name. Throws `Error` (usage) if the name is unknown (the
/// message lists the valid names) or the image is too small for the network.
Graph make_model(const std::string& name, const ModelOptions& options);

}  // namespace lockstep::graph
