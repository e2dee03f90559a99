// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/timing/operation_clock.hpp"

namespace lockstep::train {

void OperationClock::begin(Part& part) {
  if (!is_enabled_) return;
  part_ = &part;
  part.ended.clear();
}

void OperationClock::ended(graph::NodeId node, std::string_view phase) {
  if (!is_enabled_) return;
  auto& [ended, timestamps] = *part_;
  if (ended.size() == timestamps.size()) timestamps.push_back(timeline_->reserve(1)[0]);
  timeline_->record(timestamps[ended.size()]);
  ended.emplace_back(node, phase);
}

core::GradientListener& OperationClock::observe(core::GradientListener& reducer) {
  if (!is_enabled_ || !is_on_host_) return reducer;
  timed_.set_reducer(reducer);
  return timed_;
}

std::vector<OperationTime> OperationClock::times() const {
  std::vector<OperationTime> times;
  double last = 0;
  for (const Part* part : {&batch_, &work_}) {
    for (std::size_t i = 0; i < part->ended.size(); ++i) {
      const double now = timeline_->seconds(part->timestamps[i]);
      times.push_back({part->ended[i], last, now});
      last = now;
    }
  }
  return times;
}

}  // namespace lockstep::train
