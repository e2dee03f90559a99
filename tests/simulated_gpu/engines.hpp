// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Engines of the simulated cuDNN.

namespace lockstep::simulated_gpu {

/// How an engine writes its outputs.
enum class Writes {
  all,
  nothing,
  all_but_last,  ///< not the last element
  additions,     ///< adds to what the outputs had before
  added_sums     ///< adds to sums over images, and overwrites other outputs
};

struct Engine {
  std::string name;
  bool is_runtime_compiled = false;
  bool has_tensor_cores = false;
  double build_seconds = 0;  ///< time that the host sleeps
  double run_seconds = 0;    ///< the same
  std::size_t workspace_bytes = 64;
  std::string refusal = {};      ///< reason why it cannot be built; empty: none
  std::string run_refusal = {};  ///< reason why it cannot be run; empty: none
  bool is_faulty = false;        ///< its kernel accesses other memory than that of its tensors
  std::vector<cudnnBackendNumericalNote_t> numerical_notes = {};  ///< besides tensor cores
  Writes writes = Writes::all;
  float factor = 1;  ///< of the right outputs
};

/// Sets the engines that the heuristics return for every graph; none: the default, one or two
/// engines. If a faulty engine has failed, the GPU can be used again. Call it only while no graph
/// exists whose engines were queried.
void set_engines(std::vector<Engine> engines);

/// Returns the name of the engine to which cudnn-frontend refers as `tag` ("eng3": the fourth).
std::string engine_name(const std::string& tag);

/// Returns the number of cuDNN handles that this process has created so far.
int handles_created();

/// Sets the version of cuDNN, as cudnnGetVersion returns it; 0: that of its headers, the default.
void set_dnn_version(std::size_t version);

/// Sets whether further cuDNN handles can be created. The initial value is true.
void set_further_handles(bool are_available);

/// Names of the engines that were built or run since `set_engines`, in the order of the calls.
struct EngineCalls {
  std::vector<std::string> built;
  std::vector<std::string> run;
  std::int64_t largest_built = 0;  ///< largest number of images of a graph that was built
  std::size_t built_before_first_run = 0;
};
EngineCalls engine_calls();

}  // namespace lockstep::simulated_gpu
