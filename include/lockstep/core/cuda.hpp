// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/handle.hpp"

// CUDA helpers shared by the modules that use a GPU. Only the CUDA sources of these modules include
// this header.

namespace lockstep::core {

/// Throws `Error` (usage) if a library is older than the program supports. `number`: its version as
/// cuDNN and NCCL return it, 10000 major + 100 minor + patch (versions below 10000 are too old).
/// `oldest`: 100 major + minor of the oldest supported version.
void require_library(std::string_view library, std::size_t number, std::size_t oldest);

/// Throws `Error` if `status` is not cudaSuccess: out_of_memory if an allocation failed (the CUDA
/// runtime remains usable), usage if the user can correct the cause (no GPU, no driver or one that
/// is too old, an invalid or busy device, no machine code for the GPU), internal otherwise. `what`:
/// the call or the purpose of the call, for the message ("4.2 GB for feature maps").
void check_cuda(cudaError_t status, std::string_view what);

/// Returns whether an error of a kernel, such as an illegal memory access, has ended the use of the
/// GPU by this process: all later calls fail with the same error.
bool gpu_has_failed() noexcept;

/// Logs a warning that an object could not be freed, unless the GPU has failed, which has a message
/// of its own. For destructors.
void warn_of_cleanup(std::string_view message) noexcept;

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

/// `normal`: the lowest of the device, `high`: its highest, `middle`: between them; a device with
/// only two priorities has no middle, and uses the lowest.
enum class StreamPriority { normal, middle, high };

/// Returns a non-blocking stream of the current device: it does not synchronise with the default
/// stream. Throws as `check_cuda`.
Stream make_stream(StreamPriority priority = StreamPriority::normal);

enum class EventUse { order, timing };
/// Returns an event of the current device, with timing only if `use` is timing. Throws as
/// `check_cuda`.
Event make_event(EventUse use = EventUse::order);

/// Allocates `bytes` of zeroed memory on the current device. The host cannot access it. `what`: its
/// purpose, for error messages. Throws as `check_cuda`.
Buffer device_buffer(std::size_t bytes, std::string_view what);

/// Allocates `bytes` of zeroed page-locked host memory, for asynchronous copies from and to the
/// device. Throws as `check_cuda`.
Buffer pinned_buffer(std::size_t bytes);

/// Copies `from` to device memory at `to` and blocks until the data are visible to all streams.
/// cudaMemcpy alone may return earlier, and non-blocking streams do not wait for the default
/// stream. Throws as `check_cuda`, with `what` in the message.
void copy_to_device(void* to, std::span<const std::byte> from, std::string_view what);

}  // namespace lockstep::core
