// SPDX-License-Identifier: BSD-3-Clause
// The launch of kernels, and the failures of calls that allocate memory.

#include <fmt/format.h>

#include <utility>

#include "state.hpp"

namespace lockstep::simulated_gpu {

namespace {

std::int64_t requests = 0, failing_request = 0;
int devices_opened = 1;
cudaError_t last_error = cudaSuccess;

}  // namespace

void fail_allocation(std::int64_t number) {
  requests = 0;
  failing_request = number;
}

std::int64_t allocation_requests() { return requests; }

bool allocation_fails() { return ++requests == failing_request; }

void unload_modules() { ++devices_opened; }

bool Module::load(const char* what) {
  if (loaded_for_ == devices_opened) return true;
  if (open_captures() > 0)
    violation("capture-unsafe call", fmt::format("the first launch of {} loads a module", what));
  if (allocation_fails()) {
    last_error = cudaErrorMemoryAllocation;
    return false;
  }
  loaded_for_ = devices_opened;
  return true;
}

void require_launchable(const Launch& launch) {
  constexpr std::int64_t most_x = 0x7fffffff, most_yz = 65535, most_threads = 1024;
  constexpr std::int64_t most_depth = 64;
  constexpr std::size_t most_shared = 48 << 10;
  const auto& [blocks, threads, shared_bytes] = launch;
  const bool is_grid = blocks[0] > 0 && blocks[0] <= most_x && blocks[1] > 0 &&
                       blocks[1] <= most_yz && blocks[2] > 0 && blocks[2] <= most_yz;
  const bool is_block = threads[0] > 0 && threads[1] > 0 && threads[2] > 0 &&
                        threads[2] <= most_depth &&
                        threads[0] * threads[1] * threads[2] <= most_threads;
  if (is_grid && is_block && shared_bytes <= most_shared) return;
  violation("limits of a launch",
            fmt::format("{} x {} x {} blocks of {} x {} x {} threads, {} bytes of shared memory",
                        blocks[0], blocks[1], blocks[2], threads[0], threads[1], threads[2],
                        shared_bytes));
}

}  // namespace lockstep::simulated_gpu

extern "C" {

cudaError_t cudaGetLastError() {
  return std::exchange(lockstep::simulated_gpu::last_error, cudaSuccess);
}

}  // extern "C"
