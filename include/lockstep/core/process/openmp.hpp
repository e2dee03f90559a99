// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <set>

// The threads of OpenMP in this process.
namespace lockstep::core {

/// Returns whether OpenMP binds each thread to a place, which the environment requests
/// (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY, KMP_AFFINITY).
bool openmp_binds_threads();

/// Returns the processors of the OpenMP threads of this process: if OpenMP binds its threads, those
/// of all places, because the calling thread is then bound to the first place; otherwise
/// `allowed_processors()`.
std::set<int> thread_processors();

/// Returns the number of threads that OMP_NUM_THREADS requests for parallel regions ("4,2": 4); 0
/// if the variable is not set or invalid.
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
