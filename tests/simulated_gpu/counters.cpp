// SPDX-License-Identifier: BSD-3-Clause
#include "state.hpp"

namespace lockstep::simulated_gpu {

Counters& mutable_counters() {
  static Counters all;
  return all;
}

Counters counters() { return mutable_counters(); }
void reset_counters() { mutable_counters() = {}; }

void count(const Task& task, WorkCounters& work) {
  const auto copy = [&](std::int64_t& copies, std::int64_t& bytes) {
    ++copies;
    bytes += static_cast<std::int64_t>(task.bytes);
  };
  switch (task.kind) {
    case WorkKind::kernel: ++work.kernel_launches; break;
    case WorkKind::dnn: ++work.dnn_executions; break;
    case WorkKind::memset: ++work.memsets; break;
    case WorkKind::copy_to_device: copy(work.copies_to_device, work.bytes_to_device); break;
    case WorkKind::copy_to_host: copy(work.copies_to_host, work.bytes_to_host); break;
    case WorkKind::copy_on_device: copy(work.copies_on_device, work.bytes_on_device); break;
    case WorkKind::event_record: ++work.event_records; break;
    case WorkKind::collective: ++work.collectives; break;
    case WorkKind::other: break;
  }
}

}  // namespace lockstep::simulated_gpu
