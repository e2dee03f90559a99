// SPDX-License-Identifier: BSD-3-Clause
#include "kernel_stopwatch.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <vector>

#include "../kernels/device.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::backend::cuda {

namespace {

constexpr std::size_t timed_runs = 7;
constexpr std::size_t pattern_elements = 1048573;  // the largest prime below 2^20
constexpr std::size_t stream_distance = 104729;    // of the first elements, in the pattern

float pattern_value(core::Random& random) {
  const float value = 2 * random.uniform() - 1;
  return value < 0 ? 0.75f * value - 0.25f : 0.75f * value + 0.25f;
}

template <class T>
std::vector<std::byte> make_pattern() {
  std::vector<T> values(pattern_elements);
  core::Random random(0, core::RandomStream::test);
  for (T& value : values) kernels::narrow(pattern_value(random), value);
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::size_t flush_bytes(const Target& target) { return 2 * target.info().l2_cache; }

}  // namespace

double seconds_between(const core::Event& begin, const core::Event& end) {
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "reading a timestamp");
  return static_cast<double>(milliseconds) * 1e-3;
}

core::Buffer random_buffer(std::size_t bytes, core::DataType type, std::size_t stream) {
  static const std::array patterns{make_pattern<float>(), make_pattern<core::BFloat16>(),
                                   make_pattern<core::Float16>()};
  const std::vector<std::byte>& pattern = patterns.at(static_cast<std::size_t>(type));
  const std::size_t first =
      stream * stream_distance % pattern_elements * core::size_of(type);  // in bytes
  std::vector<std::byte> from(pattern.size());
  std::ranges::rotate_copy(pattern, pattern.begin() + static_cast<std::ptrdiff_t>(first),
                           from.begin());
  core::Buffer memory = core::device_buffer(bytes, "timing kernels");
  std::size_t filled = std::min(from.size(), bytes);
  core::copy_to_device(memory.data(), std::span(from).first(filled), "filling a tensor for timing");
  while (filled < bytes) {  // double the filled prefix with each copy
    const std::size_t more = std::min(filled, bytes - filled);
    check_cuda(cudaMemcpy(memory.data() + filled, memory.data(), more, cudaMemcpyDeviceToDevice),
               "filling a tensor for timing");
    filled += more;
  }
  check_cuda(cudaStreamSynchronize(cudaStreamLegacy), "filling a tensor for timing");
  return memory;
}

KernelStopwatch::KernelStopwatch(const Target& target)
    : target_(target),
      flush_(core::device_buffer(flush_bytes(target), "clearing the cache between timings")) {}

bool KernelStopwatch::fits(const Target& target, std::size_t bytes) {
  // Each allocation is rounded up, and fragments of the free memory may be too small.
  constexpr std::size_t reserve = std::size_t{64} << 20;
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "asking for the GPU's free memory");
  return bytes + flush_bytes(target) + reserve <= free;
}

double KernelStopwatch::seconds(std::size_t tensor_bytes,
                                const std::function<bool()>& enqueue) const {
  const bool is_cold = tensor_bytes > target_.info().l2_cache;
  constexpr double failed = std::numeric_limits<double>::infinity();
  const cudaStream_t stream = target_.stream();
  std::array<core::Event, timed_runs> begins, ends;
  if (!enqueue()) return failed;
  check_cuda(cudaStreamSynchronize(stream), "trying a kernel");
  for (std::size_t run = 0; run < timed_runs; ++run) {
    begins[run] = core::make_event(core::EventUse::timing);
    ends[run] = core::make_event(core::EventUse::timing);
  }
  // Enqueue all runs before waiting for the first one, so that the GPU never waits for the host.
  for (std::size_t run = 0; run < timed_runs; ++run) {
    if (is_cold)
      check_cuda(cudaMemsetAsync(flush_.data(), static_cast<int>(run), flush_.bytes(), stream),
                 "clearing the GPU's cache");
    check_cuda(cudaEventRecord(begins[run].get(), stream), "timing a kernel");
    if (!enqueue()) return failed;
    check_cuda(cudaEventRecord(ends[run].get(), stream), "timing a kernel");
  }
  check_cuda(cudaStreamSynchronize(stream), "timing a kernel");
  std::array<double, timed_runs> taken{};
  for (std::size_t run = 0; run < timed_runs; ++run)
    taken[run] = seconds_between(begins[run], ends[run]);
  std::nth_element(taken.begin(), taken.begin() + timed_runs / 2, taken.end());
  return taken[timed_runs / 2];
}

}  // namespace lockstep::backend::cuda
