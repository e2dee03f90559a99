#include "processor_lack.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "lockstep/core/format.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::app {

ProcessorLack::ProcessorLack(const Job& job, comm::Communicator& communicator)
    : job_(job), communicator_(communicator) {
  meter_.begin_interval();
}

void ProcessorLack::end(std::optional<record::RunFile>& file) {
  if (job_.config.device.kind == backend::DeviceKind::cuda) return;
  std::array share{std::fmax(-1, meter_.interval().lacking_share())};  // -1: unknown
  communicator_.maximum(share);
  if (communicator_.rank() != 0 || share[0] < 0) return;
  if (file) file->write_result("lacking_processor_share", share[0]);
  if (share[0] < core::lacking_limit) return;
  core::log_warning(
      fmt::format("a rank lacked a processor for {} % of the time (other processes, more threads "
                  "than processors, a CPU quota, or a hypervisor): the measured times do not "
                  "describe the program; repeat the run on idle processors",
                  core::format_fixed(100 * share[0], 1)));
}

}  // namespace lockstep::app
