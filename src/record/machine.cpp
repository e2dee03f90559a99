// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/processors.hpp"
#include "lockstep/core/process/system.hpp"
#include "lockstep/record/provenance.hpp"

namespace lockstep::record {

RankInfo describe_process() {
  RankInfo info;
  info.hostname = core::host_name();
  const std::set<int> processors = core::thread_processors();
  std::set<int> cores;
  for (const int processor : processors) cores.insert(core::core_of(processor));
  info.cpu_list = core::processor_list(processors);
  info.core_list = core::processor_list(cores);
  info.device_name = core::cpu_model();
  if (info.device_name.empty()) info.device_name = "CPU";
  info.memory_bytes = core::installed_memory();
  return info;
}

}  // namespace lockstep::record
