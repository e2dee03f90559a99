// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

// Starts of threads that the system may not permit.
namespace lockstep::core {

/// Variable of the environment with the size of the stacks of OpenMP's threads.
inline constexpr const char* openmp_stack_variable = "OMP_STACKSIZE";

/// Throws the `Error` (out_of_memory) for a thread that the system does not permit; the message has
/// the limits of threads.
[[noreturn]] void fail_to_start_thread();

/// Starts and ends `count` threads that exist at the same time, for a library that would
/// end the process if it could not start its threads. `stack_bytes`: 0 for the default. Throws
/// `Error` (out_of_memory) if the system does not permit them.
void require_threads(int count, std::size_t stack_bytes = 0);

}  // namespace lockstep::core
