// SPDX-License-Identifier: BSD-3-Clause
// Tests that the CPU backend refuses a oneDNN whose kernels do not run in the OpenMP threads of the
// program. `stub_openmp` is a library whose only function has the name and the version of LLVM's.

#include "backend/cpu/onednn_threads.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl.h>

#include "expect_error.hpp"
#include "lockstep/backend/backend.hpp"

namespace {
unsigned stated_runtime = DNNL_RUNTIME_OMP;
}

/// Replaces the function of oneDNN that states for which runtime it was built.
extern "C" const dnnl_version_t* dnnl_version() {
  static dnnl_version_t version;
  using Version = const dnnl_version_t* (*)();
  version = *reinterpret_cast<Version>(::dlsym(RTLD_NEXT, "dnnl_version"))();
  version.cpu_runtime = stated_runtime;
  return &version;
}

namespace lockstep::backend::cpu {
namespace {

TEST(OnednnThreads, OtherRuntimesAreRefused) {
  struct Case {
    unsigned runtime;
    const char* name;
  };
  for (const Case& c : {Case{DNNL_RUNTIME_SEQ, "one thread"}, Case{DNNL_RUNTIME_TBB, "TBB"},
                        Case{DNNL_RUNTIME_THREADPOOL, "thread pool"},
                        Case{DNNL_RUNTIME_DPCPP, "SYCL"}, Case{1U << 20, "another runtime"}}) {
    stated_runtime = c.runtime;
    expect_error(core::ExitStatus::usage, {"libdnnl.so", c.name, "DNNL_CPU_RUNTIME=OMP"},
                 [] { make_backend(DeviceKind::cpu, 1); });
  }
  stated_runtime = DNNL_RUNTIME_OMP;
  EXPECT_NO_THROW(make_backend(DeviceKind::cpu, 1));
}

TEST(OnednnThreads, AnotherOpenmpLibraryIsNamed) {
  void* const library = ::dlopen(LOCKSTEP_STUB_OPENMP, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  EXPECT_EQ(other_openmp_library(::dlsym(library, "omp_get_max_threads")), LOCKSTEP_STUB_OPENMP);
  ::dlclose(library);
}

TEST(OnednnThreads, TheOpenmpLibraryOfTheProgramIsNotAnotherOne) {
  EXPECT_EQ(other_openmp_library(reinterpret_cast<const void*>(&dnnl_engine_create)), "");
}

}  // namespace
}  // namespace lockstep::backend::cpu
