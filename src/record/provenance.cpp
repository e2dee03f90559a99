#include "lockstep/record/provenance.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "build.hpp"
#include "hdf5.hpp"

namespace lockstep::record {

namespace {

/// Returns whether the environment variable is recorded. Only variables on an allow-list are,
/// because environments contain secrets. Names on the list that look like a secret are excluded too
/// (SLURM_JWT is an authentication token).
bool is_recorded(std::string_view name) {
  constexpr std::array prefixes{"SLURM_", "NCCL_", "OMPI_", "OMP_", "UCX_"};
  constexpr std::array secrets{"JWT",    "TOKEN",      "SECRET", "PASSWORD",
                               "PASSWD", "CREDENTIAL", "_KEY",   "precondition_transports"};
  const bool listed =
      name == "CUDA_VISIBLE_DEVICES" ||
      std::any_of(prefixes.begin(), prefixes.end(), [&](auto p) { return name.starts_with(p); });
  return listed && std::none_of(secrets.begin(), secrets.end(), [&](auto secret) {
           return name.find(secret) != std::string_view::npos;
         });
}

std::string operating_system() {
  utsname system{};
  if (::uname(&system) != 0) return "unknown";
  return fmt::format("{} {} {}", system.sysname, system.release, system.machine);
}

}  // namespace

Attributes provenance() {
  const Build& build = this_build();
  Attributes all{
      {"lockstep_version", std::string(build.version)},
      {"git_commit", std::string(build.git_commit)},
      {"git_dirty", build.git_dirty ? "yes" : "no"},
      {"compiler", std::string(build.compiler)},
      {"compiler_flags", std::string(build.compiler_flags)},
      {"build_type", std::string(build.build_type)},
      {"hdf5_version", hdf5::version()},
      {"operating_system", operating_system()},
      {"cpu_model", describe_process().device_name},
  };
  const auto first_variable = static_cast<std::ptrdiff_t>(all.size());
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || !is_recorded(text.substr(0, equals))) continue;
    all.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::sort(all.begin() + first_variable, all.end());
  return all;
}

std::string build_id() {
  const Build& build = this_build();
  return fmt::format("lockstep {} commit {}{}, {}, {} {}", build.version, build.git_commit,
                     build.git_dirty ? " (modified)" : "", build.compiler, build.build_type,
                     build.compiler_flags);
}

}  // namespace lockstep::record
