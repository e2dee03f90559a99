#pragma once

#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/node_id.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::study {

/// Work and measured time of one operation in one phase of a step.
struct TimedOperation {
  std::string what;            ///< kind and shapes: "convolution 3x3, 64x32x32 -> 64x32x32"
  std::string phase;           ///< `OperationChoice::phase`, "backward", or "update"
  std::string implementation;  ///< empty if there is no choice
  double flops = 0;            ///< of the selected algorithm
  double bytes = 0;  ///< memory traffic: each feature map and weight once per pass over it
  double seconds = 0;
};

/// All operations of the same kind, shape and phase: totals, and a lower bound of their time.
struct RooflineRow {
  std::string what, phase, implementation;
  int count = 0;  ///< number of operations
  double flops = 0;
  double bytes = 0;
  double bound_seconds = 0;  ///< lower bound of the time; never more than `seconds`
  double seconds = 0;        ///< measured time
  /// Whether the bound includes the memory traffic `bytes`. It does not if an operation took less
  /// time than its memory traffic needs at the peak memory bandwidth: then some of the data stayed
  /// in a cache or was moved by another operation, and the bound is that of the floating-point
  /// operations alone.
  bool counts_bytes = true;
};

/// Roofline bounds: the operations of one training step of one rank, with lower bounds of their
/// times at the measured peak rates of the machine.
struct RooflineBounds {
  backend::Ceilings ceilings;  ///< peak rates that the bounds use
  /// The operation that ran at a higher rate than the measured matrix products. Its rate then
  /// replaces the peak rate, because a peak rate is the highest rate that was observed. Empty if
  /// there was none.
  std::string raised_by;
  std::vector<RooflineRow> rows;  ///< in descending order of `seconds`
  double seconds = 0;             ///< measured time of the step
  double bound_seconds = 0;       ///< lower bound of the step: sum over the rows
};

/// Groups `operations` into rows and computes their lower bounds. `measured`: the peak rates of the
/// device. `RooflineBounds::seconds` stays 0.
RooflineBounds compute_roofline(const backend::Ceilings& measured,
                                const std::vector<TimedOperation>& operations);

/// Returns the implementation that a training plan for `config` would use for each operation.
/// Throws `Error` (usage) if the device does not support the graph or the precision.
std::vector<backend::OperationChoice> planned_kernels(const train::Config& config,
                                                      const graph::Graph& graph,
                                                      const backend::Backend& backend);

/// Returns the number of images with which `relative_step_time` measures.
std::int64_t timed_batch(const train::Config& config);
/// Returns the time of a training step in the precision of `config` relative to that in float32, on
/// `timed_batch` random images. Takes seconds.
double relative_step_time(train::Config config, const graph::Graph& graph,
                          const backend::Backend& backend);

/// Runs some training steps on random images, measures each operation and computes the lower
/// bounds. Throws `Error` (usage) if peak rates are not measured for the kind of device.
RooflineBounds measure_roofline(const train::Config& config, const graph::Graph& graph,
                                const backend::Backend& backend);

/// Runs some training steps of one micro-batch on random images. Returns the seconds of a step by
/// node: the sum of all phases. A node that is fused with a preceding one has 0 seconds. Throws
/// `Error` (usage) if the whole network needs more than `limit_bytes` bytes.
std::vector<double> measure_nodes(train::Config config, const graph::Graph& network,
                                  const backend::Backend& backend, std::uint64_t limit_bytes);

}  // namespace lockstep::study
