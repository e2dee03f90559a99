#include "timeline.hpp"

#include <limits>

namespace lockstep::backend::cuda {

void CudaTimeline::expect(std::size_t marks) {
  for (auto& events : events_) {
    if (marks > events.size()) events.resize(marks);
  }
}

void CudaTimeline::mark(std::size_t index, void* queue) {
  if (marks_ == Marks::none) return;
  expect(index + 1);
  auto& events = events_[slot_];
  if (!events[index]) events[index] = core::make_event(core::EventUse::timing);
  const unsigned flags =
      marks_ == Marks::recorded ? cudaEventRecordExternal : cudaEventRecordDefault;
  core::check_cuda(cudaEventRecordWithFlags(
                       events[index].get(),
                       queue != nullptr ? static_cast<cudaStream_t>(queue) : compute_, flags),
                   "marking the time");
}

double CudaTimeline::seconds(std::size_t index) const {
  return index < seconds_.size() ? seconds_[index] : std::numeric_limits<double>::quiet_NaN();
}

void CudaTimeline::read(std::size_t slot) {
  const auto& events = events_[slot];
  seconds_.assign(events.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!events[i]) continue;
    float milliseconds = 0;
    core::check_cuda(cudaEventElapsedTime(&milliseconds, events[0].get(), events[i].get()),
                     "reading the time");
    seconds_[i] = static_cast<double>(milliseconds) * 1e-3;
  }
}

}  // namespace lockstep::backend::cuda
