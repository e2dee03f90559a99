// SPDX-License-Identifier: BSD-3-Clause
#include "processor_lack.hpp"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::app {

ProcessorLack::ProcessorLack(const Job& job, comm::Communicator& communicator)
    : job_(job), communicator_(communicator) {
  meter_.begin_interval();
}

void ProcessorLack::end(std::optional<record::RunFile>& file) {
  if (job_.config.device.kind == backend::DeviceKind::cuda) return;
  const double own = std::fmax(-1, meter_.interval().lacking_share());  // -1: unknown
  const double share = comm::maximum(communicator_, own);
  if (communicator_.rank() != 0 || share < 0) return;
  if (file) file->write_result("lacking_processor_share", share);
  if (share < core::lacking_limit) return;
  core::log_warning(
      fmt::format("a rank lacked a processor for {} % of the time (other processes, more threads "
                  "than processors, a CPU quota, or a hypervisor): the measured times do not "
                  "describe the program; repeat the run on idle processors",
                  core::format_fixed(100 * share, 1)));
}

}  // namespace lockstep::app
