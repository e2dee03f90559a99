#include "timeline.hpp"

#include <limits>

namespace lockstep::backend::cuda {

void CudaTimeline::resize(std::size_t count) {
  for (auto& marks : marks_) marks.resize(count);
  seconds_.resize(count, std::numeric_limits<double>::quiet_NaN());
}

void CudaTimeline::create_events() {
  for (auto& marks : marks_) {
    for (Mark& mark : marks)
      if (!mark.event) mark.event = core::make_event(core::EventUse::timing);
  }
}

/// Forgets the timestamps of the last step in this slot, except those in its graph.
void CudaTimeline::begin_step() {
  for (Mark& mark : marks_[slot_])
    if (mark.recording == Recording::immediate) mark.recording = Recording::none;
}

void CudaTimeline::record(core::Timestamp timestamp, void* queue) {
  if (recording_ == Recording::none) return;
  if (timestamp == start) begin_step();
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

void CudaTimeline::read(std::size_t slot) {
  const auto& marks = marks_[slot];
  for (std::size_t i = 0; i < marks.size(); ++i) {
    seconds_[i] = std::numeric_limits<double>::quiet_NaN();
    if (marks[i].recording == Recording::none) continue;
    float milliseconds = 0;
    core::check_cuda(
        cudaEventElapsedTime(&milliseconds, marks[start].event.get(), marks[i].event.get()),
        "reading a timestamp");
    seconds_[i] = static_cast<double>(milliseconds) * 1e-3;
  }
}

}  // namespace lockstep::backend::cuda
