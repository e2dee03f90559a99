// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/cuda.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "lockstep/core/error.hpp"
#include "lockstep/core/format.hpp"

namespace lockstep::core {

namespace {

/// Returns advice for the user, or an empty text if the error can only be a bug of the program.
std::string_view advice(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice: return "no NVIDIA GPU is visible here; use --device cpu";
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
      return "no NVIDIA driver is loaded, or it is older than this build's CUDA needs; use "
             "--device "
             "cpu, or a node with a GPU";
    case cudaErrorInvalidDevice: return "there are fewer GPUs than were asked for";
    case cudaErrorDevicesUnavailable:
      return "the GPU is busy or held exclusively by another process";
    case cudaErrorNoKernelImageForDevice:
      return "this build has no machine code for this GPU; see CMAKE_CUDA_ARCHITECTURES";
    default: return {};
  }
}

std::atomic<bool> has_failed{false};

/// Errors of kernels after which the process can use the GPU no more (CUDA runtime API, cudaError).
bool ends_use_of_gpu(cudaError_t error) {
  constexpr std::array errors{cudaErrorIllegalAddress,
                              cudaErrorMisalignedAddress,
                              cudaErrorInvalidAddressSpace,
                              cudaErrorIllegalInstruction,
                              cudaErrorInvalidPc,
                              cudaErrorHardwareStackError,
                              cudaErrorAssert,
                              cudaErrorLaunchFailure};
  return std::ranges::find(errors, error) != errors.end();
}

void warn(cudaError_t error, const char* what) noexcept {
  // At process exit the CUDA runtime may be unloaded before these objects are destroyed.
  if (error != cudaSuccess && error != cudaErrorCudartUnloading)
    warn_of_cleanup(fmt::format("{}: {}", what, cudaGetErrorString(error)));
}

}  // namespace

void require_library(std::string_view library, std::size_t number, std::size_t oldest) {
  constexpr std::size_t first_of_this_form = 10000;
  if (number / 100 >= oldest) return;
  const std::string found = number < first_of_this_form
                                ? fmt::format("version number {}", number)
                                : fmt::format("{}.{}", number / 10000, number / 100 % 100);
  fail(ExitStatus::usage,
       fmt::format("{} {} is loaded, and Lockstep needs {}.{} or newer (docs/install.md); install "
                   "a newer one, or put its folder first in LD_LIBRARY_PATH",
                   library, found, oldest / 100, oldest % 100));
}

bool gpu_has_failed() noexcept { return has_failed; }

void warn_of_cleanup(std::string_view message) noexcept {
  if (!gpu_has_failed()) log_warning(message);
}

void check_cuda(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  if (ends_use_of_gpu(status)) has_failed = true;
  static_cast<void>(cudaGetLastError());  // clears the error unless it is sticky
  const std::string failed =
      fmt::format("{} failed: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
  if (status == cudaErrorMemoryAllocation)
    fail(ExitStatus::out_of_memory,
         failed + "; the GPU's memory is full, use a smaller --batch-per-rank");
  if (const auto text = advice(status); !text.empty())
    fail(ExitStatus::usage, fmt::format("{}; {}", failed, text));
  fail(ExitStatus::internal, failed);
}

void StreamTraits::close(type stream) noexcept {
  warn(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

void EventTraits::close(type event) noexcept { warn(cudaEventDestroy(event), "cudaEventDestroy"); }

Stream make_stream(StreamPriority priority) {
  int least = 0, greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities of streams");
  const std::array priorities{least, (least + greatest) / 2, greatest};
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                          priorities[static_cast<std::size_t>(priority)]),
             "a stream");
  return Stream(stream);
}

Event make_event(EventUse use) {
  cudaEvent_t event = nullptr;
  const unsigned flags = use == EventUse::timing ? cudaEventDefault : cudaEventDisableTiming;
  check_cuda(cudaEventCreateWithFlags(&event, flags), "an event");
  return Event(event);
}

Buffer device_buffer(std::size_t bytes, std::string_view what) {
  if (bytes == 0) return {};
  void* data = nullptr;
  check_cuda(cudaMalloc(&data, bytes), fmt::format("taking {} of the GPU's memory for {}",
                                                   format_bytes(double(bytes)), what));
  std::shared_ptr<const void> owner(
      data, [](const void* held) { warn(cudaFree(const_cast<void*>(held)), "cudaFree"); });
  check_cuda(cudaMemset(data, 0, bytes), "cudaMemset");
  // Non-blocking streams do not wait for the default stream, on which cudaMemset runs.
  check_cuda(cudaStreamSynchronize(cudaStreamLegacy), "cudaMemset");
  return Buffer({static_cast<std::byte*>(data), bytes}, std::move(owner));
}

void copy_to_device(void* to, std::span<const std::byte> from, std::string_view what) {
  check_cuda(cudaMemcpy(to, from.data(), from.size(), cudaMemcpyHostToDevice), what);
  check_cuda(cudaStreamSynchronize(cudaStreamLegacy), what);
}

Buffer pinned_buffer(std::size_t bytes) {
  if (bytes == 0) return {};
  void* data = nullptr;
  check_cuda(cudaHostAlloc(&data, bytes, cudaHostAllocDefault),
             fmt::format("taking {} of page-locked host memory", format_bytes(double(bytes))));
  std::shared_ptr<const void> owner(
      data, [](const void* held) { warn(cudaFreeHost(const_cast<void*>(held)), "cudaFreeHost"); });
  auto* const bytes_of = static_cast<std::byte*>(data);
  std::fill_n(bytes_of, bytes, std::byte{});
  return Buffer({bytes_of, bytes}, std::move(owner));
}

}  // namespace lockstep::core
