// SPDX-License-Identifier: BSD-3-Clause
#include "timeline.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "device/kernel_stopwatch.hpp"

namespace lockstep::backend::cuda {

namespace {

double resolution_of(double seconds) {
  constexpr double of_events = 0.5e-6;
  return of_events + seconds * std::numeric_limits<float>::epsilon() / 2;
}

}  // namespace

void CudaTimeline::resize(std::size_t count) {
  for (auto& marks : marks_) marks.resize(count);
  seconds_.resize(count, std::numeric_limits<double>::quiet_NaN());
}

void CudaTimeline::create_events() {
  for (auto& marks : marks_)
    for (Mark& mark : marks)
      if (!mark.event) mark.event = core::make_event(core::EventUse::timing);
}

void CudaTimeline::record(core::Timestamp timestamp, void* queue) {
  if (timestamp == start) {  // forget those of the last step in this slot, except in its graph
    for (Mark& old : marks_[slot_])
      if (old.recording == Recording::immediate) old.recording = Recording::none;
  }
  Mark& mark = marks_[slot_][timestamp];
  if (!mark.event) mark.event = core::make_event(core::EventUse::timing);
  const unsigned flags =
      recording_ == Recording::captured ? cudaEventRecordExternal : cudaEventRecordDefault;
  core::check_cuda(
      cudaEventRecordWithFlags(
          mark.event.get(), queue != nullptr ? static_cast<cudaStream_t>(queue) : compute_, flags),
      "recording a timestamp");
  mark.recording = recording_;
}

void CudaTimeline::swap_captured() {
  for (auto& marks : marks_)
    for (Mark& mark : marks) std::swap(mark.recording, mark.other);
}

void CudaTimeline::read(std::size_t slot) {
  const auto& marks = marks_[slot];
  for (std::size_t i = 0; i < marks.size(); ++i) {
    seconds_[i] = std::numeric_limits<double>::quiet_NaN();
    if (marks[i].recording == Recording::none) continue;
    seconds_[i] = seconds_between(marks[start].event, marks[i].event);
  }
  start_seconds_ = std::numeric_limits<double>::quiet_NaN();
  if (!std::isnan(origin_seconds_) && marks[start].recording != Recording::none)
    start_seconds_ = origin_seconds_ + seconds_between(origin_, marks[start].event);
}

void CudaTimeline::finish_step() {
  core::check_cuda(cudaStreamSynchronize(compute_), "waiting for timestamps");
  read(slot_);
}

core::ClockCorrection CudaTimeline::set_clock() {
  constexpr int attempts = 8;
  double middle = 0, half = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const double before = core::host_seconds();
    core::check_cuda(cudaEventRecord(attempt_.get(), compute_), "setting the clock");
    core::check_cuda(cudaEventSynchronize(attempt_.get()), "setting the clock");
    const double after = core::host_seconds();
    if ((after - before) / 2 >= half) continue;
    half = (after - before) / 2;
    middle = before + half;
    std::swap(attempt_, best_);
  }
  const bool was_set = !std::isnan(origin_seconds_);
  const double elapsed = was_set ? seconds_between(origin_, best_) : 0;
  const double drift = was_set ? origin_seconds_ + elapsed - middle : 0;
  std::swap(origin_, best_);
  origin_seconds_ = middle;
  return {.drift = drift, .error = half + resolution_of(elapsed)};
}

}  // namespace lockstep::backend::cuda
