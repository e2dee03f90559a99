// SPDX-License-Identifier: BSD-3-Clause
#include "onednn_threads.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>

#include <memory>
#include <string_view>

#include "lockstep/core/error.hpp"

namespace lockstep::backend::cpu {

namespace {

std::string_view runtime_name(unsigned runtime) {
  switch (runtime) {
    case DNNL_RUNTIME_SEQ: return "one thread";
    case DNNL_RUNTIME_TBB: return "TBB";
    case DNNL_RUNTIME_THREADPOOL: return "a thread pool";
    case DNNL_RUNTIME_DPCPP: return "SYCL";
    default: return "another runtime";
  }
}

/// Returns the path of the file that contains `address`; empty if it is unknown.
std::string file_of(const void* address) {
  Dl_info info;
  return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

struct CloseLibrary {
  void operator()(void* library) const { ::dlclose(library); }
};

}  // namespace

std::string other_openmp_library(const void* function) {
  constexpr const char* symbol = "omp_get_max_threads";
  constexpr const char* version_of_llvm = "VERSION";
  const std::unique_ptr<void, CloseLibrary> library(
      ::dlopen(file_of(function).c_str(), RTLD_NOLOAD | RTLD_LAZY));
  if (!library) return "";  // linked statically
  const void* const of_library = ::dlvsym(library.get(), symbol, version_of_llvm);
  const void* const of_program = ::dlsym(RTLD_DEFAULT, symbol);
  return of_library == nullptr || of_library == of_program ? "" : file_of(of_library);
}

void require_openmp_threads() {
  const unsigned runtime = dnnl_version()->cpu_runtime;
  const auto* const function = reinterpret_cast<const void*>(&dnnl_engine_create);
  if (runtime != DNNL_RUNTIME_OMP) {
    core::fail(core::ExitStatus::usage,
               fmt::format("oneDNN ({}) was built for {} instead of OpenMP, with which it would "
                           "compute wrong results or ignore --threads; use a oneDNN that was built "
                           "with DNNL_CPU_RUNTIME=OMP",
                           file_of(function), runtime_name(runtime)));
  }
  const std::string other = other_openmp_library(function);
  if (!other.empty()) {
    core::fail(core::ExitStatus::usage,
               fmt::format("oneDNN ({}) uses another OpenMP library than this program, so that it "
                           "would ignore --threads; set LD_PRELOAD={}, which serves both",
                           file_of(function), other));
  }
}

}  // namespace lockstep::backend::cpu
