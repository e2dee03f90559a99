#pragma once

#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// All operations of one kind and shape, in one phase: what they cost at least, and what they cost.
struct FloorRow {
  std::string what;            ///< "convolution 3x3, 64x32x32 -> 64x32x32"
  std::string phase;           ///< as `OperationChoice::phase`, "backward", or "update"
  std::string implementation;  ///< empty where there is no choice
  int count = 0;               ///< how many there are
  double flops = 0;            ///< of all, by the algorithm that was chosen
  double bytes = 0;            ///< of all, each map and weight once per pass over it
  double floor_seconds = 0;    ///< the longer of the two at the ceilings
  double seconds = 0;          ///< measured, of all
};

/// One training step of one rank against what the machine's ceilings allow.
struct Floor {
  backend::Ceilings ceilings;
  std::vector<FloorRow> rows;  ///< by seconds, longest first
  double seconds = 0;          ///< of the step
  double floor_seconds = 0;    ///< sum over the rows
};

/// What a person calls a node: operations of one name do the same work.
std::string describe_operation(const graph::Graph& graph, graph::NodeId id);

/// How the training plan would compute each operation. Throws `Error` (usage) where the device
/// cannot.
std::vector<backend::OperationChoice> planned_kernels(const Config& config,
                                                      const graph::Graph& graph,
                                                      const backend::Backend& backend);

/// Runs some steps on random images. Throws `Error` (usage) for a device that measures no ceilings.
Floor measure_floor(const Config& config, const graph::Graph& graph,
                    const backend::Backend& backend);

}  // namespace lockstep::train
