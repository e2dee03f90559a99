#include "lockstep/core/system.hpp"
#include "lockstep/record/provenance.hpp"

namespace lockstep::record {

RankInfo describe_process() {
  RankInfo info;
  info.hostname = core::host_name();
  info.cpu_list = core::allowed_processors();
  info.device_name = core::cpu_model();
  if (info.device_name.empty()) info.device_name = "CPU";
  info.memory_bytes = core::installed_memory();
  return info;
}

}  // namespace lockstep::record
