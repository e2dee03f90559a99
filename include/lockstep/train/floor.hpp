#pragma once

#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// One operation in one phase: its work and its measured time.
struct TimedOperation {
  std::string what;            ///< "convolution 3x3, 64x32x32 -> 64x32x32"
  std::string phase;           ///< as `OperationChoice::phase`, "backward", or "update"
  std::string implementation;  ///< empty if there is no choice
  double flops = 0;            ///< of the algorithm that was chosen
  double bytes = 0;            ///< each map and weight once per pass over it
  double seconds = 0;
};

/// All operations of one kind, shape and phase: sums over them, and a lower bound of their time.
struct FloorRow {
  std::string what, phase, implementation;
  int count = 0;  ///< number of operations
  double flops = 0;
  double bytes = 0;
  double floor_seconds = 0;  ///< lower bound; never more than `seconds`
  double seconds = 0;        ///< measured
  /// Whether `bytes` are part of the bound. They are not if an operation took less time than moving
  /// them to and from memory takes: then some of them stayed in a cache, or were moved by another
  /// operation, and the bound is that of the floating-point operations alone.
  bool counts_bytes = true;
};

/// The operations of one training step of one rank, and lower bounds of their times by the rates of
/// the machine (roofline model).
struct Floor {
  backend::Ceilings ceilings;  ///< as used for the bounds
  /// The operation that ran faster than the measured matrix products. Its rate is then the ceiling,
  /// because a ceiling is the highest rate that was observed. Empty if there was none.
  std::string raised_by;
  std::vector<FloorRow> rows;  ///< by seconds, longest first
  double seconds = 0;          ///< of the step
  double floor_seconds = 0;    ///< sum over the rows
};

/// Computes the rows and their bounds. `Floor::seconds` stays 0.
Floor compute_floor(const backend::Ceilings& measured,
                    const std::vector<TimedOperation>& operations);

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
