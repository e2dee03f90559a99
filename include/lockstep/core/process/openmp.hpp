// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The threads of OpenMP, and the variables of the environment that change their number.
namespace lockstep::core {

/// Returns the number of threads that OMP_NUM_THREADS requests for parallel regions ("4,2": 4);
/// 0 if the variable is not set or invalid.
int openmp_requested_threads();

/// Returns the largest number of threads that OpenMP starts (OMP_THREAD_LIMIT).
int openmp_thread_limit();

/// Starts `threads` threads of OpenMP, which the parallel regions of the calling thread then use.
/// Kernels of oneDNN wait for all threads that they request, so OMP_DYNAMIC and
/// OMP_MAX_ACTIVE_LEVELS=0, with which OpenMP may start fewer, have no effect afterwards. Throws
/// `Error` (usage) if OMP_THREAD_LIMIT does not permit this number, and `Error` (out_of_memory) if
/// the system does not permit further threads.
void start_openmp_threads(int threads);

}  // namespace lockstep::core
