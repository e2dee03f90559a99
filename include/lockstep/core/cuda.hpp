#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/handle.hpp"

// What the rooms that work on a GPU share. Only their CUDA files include this.

namespace lockstep::core {

/// Throws `Error` where `status` is not success: out_of_memory where the device has none left (the
/// runtime goes on after that), usage where there is no device or no driver, else internal.
/// `what`: the call, or what was wanted ("4.2 GB for feature maps").
void check_cuda(cudaError_t status, std::string_view what);

struct StreamTraits {
  using type = cudaStream_t;
  static type null() noexcept { return nullptr; }
  static void close(type stream) noexcept;
};
using Stream = Handle<StreamTraits>;

struct EventTraits {
  using type = cudaEvent_t;
  static type null() noexcept { return nullptr; }
  static void close(type event) noexcept;
};
using Event = Handle<EventTraits>;

enum class StreamPriority { normal, high };

/// A stream of the current device that does not wait for the default one.
Stream make_stream(StreamPriority priority = StreamPriority::normal);

enum class EventUse { order, timing };
Event make_event(EventUse use = EventUse::order);

/// Zeroed memory of the current device as a buffer; the host cannot read it.
Buffer device_buffer(std::size_t bytes, std::string_view what);

/// Zeroed host memory that the device copies from and to while the host works.
Buffer pinned_buffer(std::size_t bytes);

/// Copies to the device and waits until the copy is there for all streams: the runtime's own copy
/// may return before, and our streams do not wait for its.
void copy_to_device(void* to, std::span<const std::byte> from, std::string_view what);

}  // namespace lockstep::core
