// SPDX-License-Identifier: BSD-3-Clause
// Has the name and, by stub_openmp.map, the version of a function of the OpenMP library of LLVM.
int omp_get_max_threads(void) { return 1; }
