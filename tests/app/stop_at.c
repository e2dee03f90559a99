// SPDX-License-Identifier: BSD-3-Clause
// Shared library for LD_PRELOAD in one rank: the process stops itself (SIGSTOP) at the beginning of
// the first call of the function that the environment variable STOP_AT names. "FUNCTION TEXT": the
// first call whose file name contains TEXT.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void stop_at(const char* function, const char* file) {
  static int has_stopped = 0;
  const char* wanted = getenv("STOP_AT");
  const size_t length = strlen(function);
  if (has_stopped || wanted == NULL || strncmp(wanted, function, length) != 0) return;
  if (wanted[length] == ' ' ? strstr(file, wanted + length + 1) == NULL : wanted[length] != '\0') return;
  has_stopped = 1;
  raise(SIGSTOP);
}

int PMPI_Init_thread(int* argc, char*** argv, int required, int* provided);
int PMPI_Finalize(void);

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  stop_at("MPI_Init_thread", "");
  return PMPI_Init_thread(argc, argv, required, provided);
}

int MPI_Finalize(void) {
  stop_at("MPI_Finalize", "");
  return PMPI_Finalize();
}

// A primitive of oneDNN: the plan is compiled.
int dnnl_primitive_create(void** primitive, const void* description) {
  stop_at("dnnl_primitive_create", "");
  int (*next)(void**, const void*) = (int (*)(void**, const void*))dlsym(RTLD_NEXT, "dnnl_primitive_create");
  return next(primitive, description);
}

int64_t H5Fcreate(const char* name, unsigned flags, int64_t creation, int64_t access) {
  stop_at("H5Fcreate", name);
  int64_t (*next)(const char*, unsigned, int64_t, int64_t) =
      (int64_t(*)(const char*, unsigned, int64_t, int64_t))dlsym(RTLD_NEXT, "H5Fcreate");
  return next(name, flags, creation, access);
}

int64_t H5Fopen(const char* name, unsigned flags, int64_t access) {
  stop_at("H5Fopen", name);
  int64_t (*next)(const char*, unsigned, int64_t) =
      (int64_t(*)(const char*, unsigned, int64_t))dlsym(RTLD_NEXT, "H5Fopen");
  return next(name, flags, access);
}
