// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/train/pipeline/pipeline.hpp"

namespace lockstep::train {

/// Facts about a run that are known before its first step.
struct RunDescription {
  std::int64_t steps_per_epoch = 0, total_steps = 0;
  std::int64_t first_step = 0;  ///< steps of the checkpoint that was resumed; 0 without one
  /// Whether the run needs no further training or evaluation, for example because the checkpoint
  /// that it resumed from is the last one.
  bool is_finished = false;
  /// Valid on rank 0: the identifier of the run, which is the same in all processes that continue
  /// it, the number of these processes including this one, and the warnings that a resume has
  /// printed about differences between the run before and after it.
  std::string run_id;
  std::int64_t part = 0;
  std::vector<std::string> warnings;
  /// Bytes of each bucket as communicated; empty if nothing is communicated, and for the stages of
  /// a pipeline, whose buckets differ.
  std::vector<std::size_t> bucket_sizes;
  comm::AllReduceChoice all_reduce;
  std::string transport;  ///< name and version of the library that transports the gradients
  std::vector<std::string> transport_warnings;    ///< see `comm::GradientTransport::warnings`
  std::vector<backend::OperationChoice> kernels;  ///< implementations in the training plan
  /// Network interfaces of the telemetry of all ranks (`record::RunHeader`); nothing without it.
  std::optional<std::vector<std::string>> telemetry_interfaces;
  /// RAPL zones of this host that are measured, or "not readable: REASON".
  std::string host_energy_source = "not measured";
  std::vector<StageDescription> stages;  ///< of the first replica on rank 0; empty without pipeline
};

}  // namespace lockstep::train
