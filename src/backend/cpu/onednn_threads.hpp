// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace lockstep::backend::cpu {

/// Throws `Error` (usage) unless oneDNN executes its kernels with the OpenMP threads of this
/// program. oneDNN can be built for other runtimes: those of SYCL return before the result is
/// complete, and TBB and thread pools ignore the number of threads of a rank. `DNNL_CPU_RUNTIME` is
/// checked when Lockstep is configured, but the library can be replaced later.
void require_openmp_threads();

/// Returns the path of the OpenMP library on which the library that contains `function` depends, if
/// it is not the OpenMP library of this program; empty if both use the same one.
///
/// Two OpenMP libraries have separate threads, and `omp_set_num_threads` reaches one of them. The
/// symbols of LLVM and Intel (libomp, libiomp5) also have the versions of GNU (libgomp), so they
/// serve both if they are loaded first; the reverse is not true.
std::string other_openmp_library(const void* function);

}  // namespace lockstep::backend::cpu
