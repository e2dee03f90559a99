// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Helper functions for the files with the cases of memory traffic.

#include <string>
#include <type_traits>
#include <vector>

#include "backend/cuda/kernels/scalar.hpp"
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

/// Appends the elements of all `more` to `all`.
template <class... Traffics>
void append(std::vector<Traffic>& all, const Traffics&... more) {
  (all.insert(all.end(), more.begin(), more.end()), ...);
}

}  // namespace lockstep::backend::cuda::kernels::test
