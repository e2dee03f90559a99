// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "job.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/meter/processor_meter.hpp"
#include "lockstep/record/run_file.hpp"

namespace lockstep::app {

/// Measures for how long the ranks lack processors while a command other than `train`, which
/// measures it in each epoch, measures times.
class ProcessorLack {
 public:
  /// Begins the measurement. Both must outlive this object.
  ProcessorLack(const Job& job, comm::Communicator& communicator);

  /// Ends the measurement: adds the largest share of all ranks to the results of the run file, and
  /// warns on rank 0 if it spoils the times. Does nothing on GPUs. Collective: all ranks must call
  /// this.
  void end(std::optional<record::RunFile>& file);

 private:
  const Job& job_;
  comm::Communicator& communicator_;
  core::ProcessorMeter meter_;
};

}  // namespace lockstep::app
