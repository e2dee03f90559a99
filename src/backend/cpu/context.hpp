// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../operation.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/graph.hpp"

namespace lockstep::backend::cpu {

class ConvolutionChooser;
struct FusedStatistics;

/// The uploaded batch: its labels, and its result after the forward pass.
struct BatchData {
  std::vector<std::int32_t> labels;  ///< one per image
  std::int64_t step = 0;             ///< number of the training step, for random numbers
  BatchResult result;
};

/// Objects and options that all operations of a plan share.
struct Context {
  dnnl::engine engine;
  dnnl::stream stream;
  int threads = 1;
  const graph::Graph* graph = nullptr;
  PlanOptions options;
  ConvolutionChooser* chooser = nullptr;
  BatchData* batch = nullptr;
  std::span<FusedStatistics> statistics;  ///< empty in inference

  /// Returns parameter `index` (0: weight, 1: bias) of a node in flat values or gradients.
  std::span<float> parameter(const core::Buffer& flat, const graph::Node& node,
                             std::size_t index) const {
    const graph::Parameter& tensor = graph->parameters()[node.parameters[index]];
    return flat.as<float>().subspan(tensor.offset, tensor.elements);
  }
};

}  // namespace lockstep::backend::cpu
