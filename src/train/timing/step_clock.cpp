// SPDX-License-Identifier: BSD-3-Clause
#include "step_clock.hpp"

#include <algorithm>
#include <array>

namespace lockstep::train {

namespace {

constexpr std::size_t batch_phases = 2;  // data wait and upload

/// Activity of a rank in each phase.
constexpr std::array<core::Activity, record::phase_count> activities{
    core::Activity::data_wait,
    core::Activity::upload,
    core::Activity::forward,
    core::Activity::backward,
    core::Activity::exposed_communication,
    core::Activity::update};

/// Forward, backward, the wait for the sum of each bucket and its update, the exchange of
/// parameters and what follows it, and the wait at the end.
std::size_t work_phases(std::size_t buckets) {
  constexpr std::size_t forward_and_backward = 2, parameters = 2, end = 1;
  return forward_and_backward + 2 * std::max<std::size_t>(buckets, 1) + parameters + end;
}

}  // namespace

StepClock::StepClock(core::Timeline& timeline, core::ProgressMonitor* monitor, std::size_t buckets,
                     OperationClock* operations)
    : timeline_(timeline),
      monitor_(monitor),
      operations_(operations),
      batch_(timeline.reserve(batch_phases)),
      work_(timeline.reserve(work_phases(buckets))) {}

void StepClock::begin(std::int64_t step) {
  step_ = step;
  core::begin_activity(monitor_, core::Activity::data_wait, step);
  timeline_.record(core::Timeline::start);
  if (operations_ != nullptr) operations_->begin();
  part_ = &batch_;
  part_->recorded = 0;
}

void StepClock::begin_work() {
  if (operations_ != nullptr) operations_->begin_work();
  part_ = &work_;
  part_->recorded = 0;
}

void StepClock::end(record::Phase phase) {
  timeline_.record(part_->timestamps[part_->recorded]);
  part_->phases[part_->recorded] = phase;
  ++part_->recorded;
  if (operations_ != nullptr)
    operations_->ended(no_node, record::phase_names[static_cast<std::size_t>(phase)]);
  // After an update the step waits for the next bucket, or for its end.
  const core::Activity following = phase == record::Phase::update
                                       ? core::Activity::exposed_communication
                                       : activities[static_cast<std::size_t>(phase) + 1];
  core::begin_activity(monitor_, following, step_);
}

record::PhaseSeconds StepClock::seconds() const {
  record::PhaseSeconds seconds{};
  double last = 0;
  for (const Part* part : {&batch_, &work_}) {
    for (std::size_t i = 0; i < part->recorded; ++i) {
      const double now = timeline_.seconds(part->timestamps[i]);
      seconds[static_cast<std::size_t>(part->phases[i])] += now - last;
      last = now;
    }
  }
  return seconds;
}

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
