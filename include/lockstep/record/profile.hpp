// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::record {

/// One operation of the network in one phase of a training step, or another part of the step; one
/// row of /profile. All quantities are those of one step, means over the profiled steps.
struct ProfiledOperation {
  std::string name;            ///< name of the operation: "layer1.0.conv1"; that of another part
  std::string what;            ///< kind and shapes: "convolution 3x3, 64x32x32 -> 64x32x32"
  std::string phase;           ///< "forward", "backward data", ..., "update"
  std::string implementation;  ///< empty if there is no choice
  std::string ceiling;         ///< "compute", "memory", "cache" or "none"; docs/run-file.md
  double calls = 0;
  double flops = 0;             ///< of the selected algorithm
  double bytes = 0;             ///< each feature map and weight once per pass over it
  double bound_seconds = 0;     ///< lower bound of the time on rank 0 (roofline model)
  std::vector<double> seconds;  ///< (rank); NaN on ranks that do not execute the operation
};

/// Profile of some training steps.
struct Profile {
  std::int64_t steps = 0;   ///< number of profiled steps
  double step_seconds = 0;  ///< of a profiled step; median over steps, maximum over ranks
  double step_seconds_without_profile = 0;  ///< of steps without profile, in turn with the others
  double flops_per_second = 0;              ///< ceilings of the roofline model; 0: unknown
  double bytes_per_second = 0;
  std::string ceiling_source;                 ///< how they are known
  std::vector<ProfiledOperation> operations;  ///< in the order of their execution
};

}  // namespace lockstep::record
