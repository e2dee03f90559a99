// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Helper functions for the files with the cases of memory traffic.

#include <string>
#include <type_traits>
#include <vector>

#include "backend/cuda/kernels/slabs.hpp"
#include "traffic.hpp"

namespace lockstep::backend::cuda::kernels::test {

/// Returns the name of a kernel template with the argument T, as in the source.
template <class T>
std::string typed(const char* kernel) {
  const char* const type = std::is_same_v<T, float>            ? "float"
                           : std::is_same_v<T, core::BFloat16> ? "core::BFloat16"
                                                               : "Float16";
  return std::string(kernel) + "<" + type + ">";
}

/// Returns the number of slabs with which each thread of a kernel that sums slabs has one row, so
/// that the order of the accesses on the host is that of the threads.
template <class T>
std::int64_t slabs_with_one_row_per_thread(std::int64_t rows, std::int64_t channels) {
  return rows / SlabThreads(channel_groups<T>(channels)).rows_at_once;
}

/// Appends the elements of all `more` to `all`.
template <class... Traffics>
void append(std::vector<Traffic>& all, const Traffics&... more) {
  (all.insert(all.end(), more.begin(), more.end()), ...);
}

}  // namespace lockstep::backend::cuda::kernels::test
