#include "timeline.hpp"

#include <limits>

namespace lockstep::backend::cuda {

void CudaTimeline::resize(std::size_t count) {
  for (auto& events : events_) events.resize(count);
  seconds_.resize(count, std::numeric_limits<double>::quiet_NaN());
}

void CudaTimeline::record(core::Timestamp timestamp, void* queue) {
  if (recording_ == Recording::none) return;
  core::Event& event = events_[slot_][timestamp];
  if (!event) event = core::make_event(core::EventUse::timing);
  const unsigned flags =
      recording_ == Recording::captured ? cudaEventRecordExternal : cudaEventRecordDefault;
  core::check_cuda(
      cudaEventRecordWithFlags(
          event.get(), queue != nullptr ? static_cast<cudaStream_t>(queue) : compute_, flags),
      "recording a timestamp");
}

void CudaTimeline::read(std::size_t slot) {
  const auto& events = events_[slot];
  for (std::size_t i = 0; i < events.size(); ++i) {
    seconds_[i] = std::numeric_limits<double>::quiet_NaN();
    if (!events[i]) continue;
    float milliseconds = 0;
    core::check_cuda(cudaEventElapsedTime(&milliseconds, events[start].get(), events[i].get()),
                     "reading a timestamp");
    seconds_[i] = static_cast<double>(milliseconds) * 1e-3;
  }
}

}  // namespace lockstep::backend::cuda
