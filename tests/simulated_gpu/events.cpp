// SPDX-License-Identifier: BSD-3-Clause
// Replaces the functions of the CUDA runtime for events.

#include <fmt/format.h>

#include <algorithm>

#include "state.hpp"

using namespace lockstep::simulated_gpu;

namespace {

std::int64_t wait_count = 0, ignored_wait = 0;

/// The stream joins the capture that contains the event, or its next task depends on the event.
void wait_in_capture(cudaStream_t stream, const EventState& event) {
  constexpr std::string_view rule = "dependency across the boundary of a capture";
  const bool is_captured = stream->capture != nullptr;
  if (event.capture == nullptr) {
    // An event that was never recorded is no dependency.
    if (is_captured && event.stream != nullptr)
      violation(rule, "a captured stream waits for work that is not captured");
    return;
  }
  if (!event.capture->is_open) {
    violation(rule, "a stream waits for an event of a capture that has ended");
  } else if (is_captured && stream->capture != event.capture) {
    violation(rule, "a captured stream waits for an event of another capture");
  } else {
    if (!is_captured) stream->captured.clear();
    stream->capture = event.capture;
    stream->captured.insert(stream->captured.end(), event.captured.begin(), event.captured.end());
  }
}

/// Reports a violation if the host must not wait for the event.
void require_waitable(const EventState& event, const char* call) {
  require_no_capture(call);
  if (event.capture != nullptr)
    violation("capture-unsafe call", fmt::format("{} of an event of a capture", call));
}

/// Reports a violation if the time between the events is not defined.
void require_readable(const EventState& begin, const EventState& end) {
  constexpr std::string_view rule = "elapsed time of events";
  for (const EventState* event : {&begin, &end}) {
    if (!event->has_timing) violation(rule, "an event was created without timing");
    if (event->pending > 0) violation(rule, "the work before an event is not complete");
    if (!event->has_time) violation(rule, "an event was not recorded");
  }
  if (begin.launch != 0 && end.launch != 0 && begin.launch != end.launch)
    violation(rule, "the events belong to different launches of graphs");
  if (end.order < begin.order) violation(rule, "the end was recorded before the begin");
}

}  // namespace

namespace lockstep::simulated_gpu {

void ignore_wait(std::int64_t number) {
  ignored_wait = number;
  wait_count = 0;
}
std::int64_t waits() { return wait_count; }

}  // namespace lockstep::simulated_gpu

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  if (allocation_fails()) return cudaErrorMemoryAllocation;
  *event = new CUevent_st{std::make_shared<EventState>()};
  (*event)->state->has_timing = (flags & cudaEventDisableTiming) == 0;
  ++mutable_objects().events;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  --mutable_objects().events;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  if (++wait_count == ignored_wait) return cudaSuccess;
  const EventState& state = *event->state;
  if (stream->capture != nullptr || state.capture != nullptr) {
    wait_in_capture(stream, state);
  } else if (state.stream != nullptr) {
    enqueue(stream, {.run = [other = state.stream, position = state.position] {
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
  enqueue(stream, {.kind = WorkKind::event_record, .run = [] {}, .event = event->state});
  if (is_external) return cudaSuccess;
  state.stream = stream;
  state.position = stream->queued;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const EventState& state = *event->state;
  require_waitable(state, "cudaEventSynchronize");
  ++mutable_counters().host_waits;
  if (state.stream != nullptr) finish(state.stream, state.position);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const EventState& state = *event->state;
  require_waitable(state, "cudaEventQuery");
  if (state.stream == nullptr || state.stream->done >= state.position) {
    ++mutable_counters().host_waits;
    return cudaSuccess;
  }
  // Two queries complete the event, so that polling does not depend on the amount of work.
  run_until(state.stream, std::max(state.stream->done + 1, state.position - 1));
  return cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const EventState &first = *begin->state, &last = *end->state;
  require_readable(first, last);
  if (!first.has_time || !last.has_time) return cudaErrorInvalidResourceHandle;
  *milliseconds = std::chrono::duration<float, std::milli>(last.time - first.time).count();
  return cudaSuccess;
}

}  // extern "C"
