// Replaces the functions of the CUDA runtime for events.

#include "state.hpp"

using namespace lockstep::simulated_gpu;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new CUevent_st{std::make_shared<EventState>()};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  const EventState& state = *event->state;
  if (state.capture != nullptr) {
    stream->capture = state.capture;  // the stream joins the capture
    stream->captured.insert(stream->captured.end(), state.captured.begin(), state.captured.end());
  } else if (state.stream != nullptr) {
    enqueue(stream, {WorkKind::other, [other = state.stream, position = state.position] {
                       if (streams().contains(other)) run_until(other, position);
                     }});
  }
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  EventState& state = *event->state;
  const bool is_external = flags == cudaEventRecordExternal;
  // As CUDA: external events are valid only in a capture.
  if (is_external && stream->capture == nullptr) return cudaErrorInvalidValue;
  state.capture = is_external ? nullptr : stream->capture;
  if (state.capture != nullptr) {
    state.captured = stream->captured;
    return cudaSuccess;
  }
  enqueue(stream, {WorkKind::event_record, [kept = event->state] {
                     kept->time = std::chrono::steady_clock::now();
                     kept->has_time = true;
                   }});
  state.stream = stream;
  state.position = stream->queued;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  ++mutable_counters().host_waits;
  const EventState& state = *event->state;
  if (state.stream != nullptr) run_until(state.stream, state.position);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const EventState& state = *event->state;
  if (state.stream == nullptr || state.stream->done >= state.position) {
    ++mutable_counters().host_waits;
    return cudaSuccess;
  }
  run_until(state.stream, state.stream->done + 1);
  return cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const EventState &first = *begin->state, &last = *end->state;
  if (!first.has_time || !last.has_time) return cudaErrorInvalidResourceHandle;
  *milliseconds = std::chrono::duration<float, std::milli>(last.time - first.time).count();
  return cudaSuccess;
}

}  // extern "C"
