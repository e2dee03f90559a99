#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "../operation.hpp"
#include "lockstep/backend/backend.hpp"

namespace lockstep::backend::cpu {

class ConvolutionChooser;

/// Objects and options that all operations of a plan share.
struct Context {
  dnnl::engine engine;
  dnnl::stream stream;
  int threads = 1;
  const graph::Graph* graph = nullptr;
  PlanOptions options;
  ConvolutionChooser* chooser = nullptr;
};

}  // namespace lockstep::backend::cpu
