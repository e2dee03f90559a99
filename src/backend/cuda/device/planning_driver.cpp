// SPDX-License-Identifier: BSD-3-Clause
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "device.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/trust.hpp"

#ifndef LOCKSTEP_PLANNING_DRIVER_IN_BUILD
#define LOCKSTEP_PLANNING_DRIVER_IN_BUILD ""
#endif

namespace lockstep::backend::cuda {
namespace {

constexpr const char* library_name = "libcuda.so.1";  // name of the driver for CUDA and cuDNN

std::vector<std::filesystem::path> candidates() {
  if (const char* named = std::getenv("LOCKSTEP_PLANNING_DRIVER")) return {named};
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error)
    paths.push_back(program.parent_path().parent_path() / "lib" / "lockstep" / library_name);
  if (const std::string built = LOCKSTEP_PLANNING_DRIVER_IN_BUILD; !built.empty())
    paths.emplace_back(built);
  return paths;
}

/// Returns why a library must not be loaded; empty if it can be. The owner of this program is
/// trusted as well, because an administrator of the installation owns both.
std::string distrust_library(const std::filesystem::path& library) {
  struct stat program {};
  if (::stat("/proc/self/exe", &program) != 0) program.st_uid = ::geteuid();
  const std::string folder = core::distrust(library.parent_path(), program.st_uid);
  return folder.empty() ? core::distrust(library, program.st_uid)
                        : fmt::format("of its directory: {}", folder);
}

}  // namespace

bool open_planning_driver() {
  // The dynamic loader identifies loaded libraries by SONAME: later requests for libcuda.so.1
  // return the library that is already loaded. The stub stays open until the process exits, as the
  // driver does.
  if (void* loaded = dlopen(library_name, RTLD_NOW | RTLD_NOLOAD))
    return dlsym(loaded, "lockstep_planning_driver") != nullptr;
  std::string tried;
  for (const auto& path : candidates()) {
    if (const std::string reason = distrust_library(path); !reason.empty()) {
      tried += fmt::format("; {} is not used, because {}", path.string(), reason);
      continue;
    }
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return true;
    tried += fmt::format("; {}", dlerror());
  }
  core::fail(core::ExitStatus::usage,
             fmt::format("planning for a target GPU requires Lockstep's stub of the CUDA "
                         "driver, which was not found{}; install it, or set its path in "
                         "LOCKSTEP_PLANNING_DRIVER",
                         tried));
}

}  // namespace lockstep::backend::cuda
