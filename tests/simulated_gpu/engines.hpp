// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Engines of the simulated cuDNN.

namespace lockstep::simulated_gpu {

struct Engine {
  std::string name;
  bool is_runtime_compiled = false;
  bool has_tensor_cores = false;
  double build_seconds = 0;  ///< time that the host sleeps
  double run_seconds = 0;    ///< the same
  std::size_t workspace_bytes = 64;
  std::string refusal = {};      ///< reason why it cannot be built; empty: none
  std::string run_refusal = {};  ///< reason why it cannot be run; empty: none
  std::vector<cudnnBackendNumericalNote_t> numerical_notes = {};  ///< besides tensor cores
};

/// Sets the engines that the heuristics return for every graph; none: the default, one or two
/// engines. Call it only while no graph exists whose engines were queried.
void set_engines(std::vector<Engine> engines);

/// Returns the name of the engine to which cudnn-frontend refers as `tag` ("eng3": the fourth).
std::string engine_name(const std::string& tag);

/// Sets whether further cuDNN handles can be created. The initial value is true.
void set_further_handles(bool are_available);

/// Names of the engines that were built or run since `set_engines`, in the order of the calls.
struct EngineCalls {
  std::vector<std::string> built;
  std::vector<std::string> run;
  std::int64_t largest_built = 0;  ///< largest number of images of a graph that was built
};
EngineCalls engine_calls();

}  // namespace lockstep::simulated_gpu
