// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstdint>
#include <vector>

#include "../operation.hpp"
#include "lockstep/backend/backend.hpp"

namespace lockstep::backend::cpu {

class ConvolutionChooser;
class StatisticsFusion;

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
  StatisticsFusion* statistics = nullptr;  ///< null in inference
};

}  // namespace lockstep::backend::cpu
