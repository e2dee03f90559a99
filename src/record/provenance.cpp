// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/record/provenance.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>
#include <utility>

#include "digest.hpp"
#include "files.hpp"
#include "lockstep/core/process/openmp.hpp"
#include "lockstep/core/process/processors.hpp"
#include "lockstep/core/process/system.hpp"

namespace lockstep::record {

namespace {

bool contains_any(std::string_view text, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&](auto part) { return text.find(part) != text.npos; });
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& character : lower) {
    character = static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
  }
  return lower;
}

/// Returns whether the environment variable is recorded. Only variables on an allow-list are,
/// because environments contain secrets: settings of the scheduler, of NCCL, of the MPI libraries
/// and their networks, and of OpenMP and oneDNN. Names on the list that look like a secret are
/// excluded too (SLURM_JWT is an authentication token, NCCL_SOCKET_MAGIC admits processes to a
/// job), and variables that contain other variables: those of `sbatch --export` and `mpirun -x`.
bool is_recorded(std::string_view name) {
  constexpr std::string_view prefixes[] = {
      "SLURM_", "NCCL_", "OMPI_", "PRTE_MCA_", "PMIX_MCA_", "MPIR_CVAR_", "MPICH_", "I_MPI_",
      "FI_",    "UCX_",  "OMP_",  "GOMP_",     "KMP_",      "ONEDNN_",    "DNNL_"};
  constexpr std::string_view excluded[] = {
      "jwt", "magic", "token",  "secret",     "passw",    "credential",
      "key", "auth",  "cookie", "export_env", "env_list", "precondition_transports"};
  const bool listed =
      name == "CUDA_VISIBLE_DEVICES" ||
      std::ranges::any_of(prefixes, [&](auto prefix) { return name.starts_with(prefix); });
  return listed && !contains_any(lower_case(name), excluded);
}

/// Returns whether the value may contain a secret: a URL with a user name, an assignment to a name
/// that looks like a secret, a JSON web token or a private key.
bool may_be_secret(std::string_view value) {
  constexpr std::string_view assignments[] = {
      "token=", "secret=", "password=", "passwd=", "key=", "bearer "};
  constexpr std::string_view contents[] = {"eyJ", "-----BEGIN"};
  const auto url = value.find("://");
  return (url != std::string_view::npos && value.find('@', url) != std::string_view::npos) ||
         contains_any(lower_case(value), assignments) || contains_any(value, contents);
}

std::string operating_system() {
  utsname system{};
  if (::uname(&system) != 0) return "unknown";
  return fmt::format("{} {} {}", system.sysname, system.release, system.machine);
}

std::string executable_digest() {
  const std::filesystem::path path = "/proc/self/exe";
  std::string contents(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary)
      .read(contents.data(), static_cast<std::streamsize>(contents.size()));
  Digest digest;
  digest.add(contents);
  return digest.hex();
}

}  // namespace

Attributes versions() {
  const Build& build = this_build();
  return {
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
}

Attributes environment_variables() {
  Attributes found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || !is_recorded(text.substr(0, equals))) continue;
    if (may_be_secret(text.substr(equals + 1))) continue;
    found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::ranges::sort(found);
  return found;
}

Attributes provenance() {
  Attributes all = versions();
  for (auto& variable : environment_variables()) all.push_back(std::move(variable));
  return all;
}

std::string build_id() {
  const Build& build = this_build();
  return fmt::format("lockstep {} commit {}{}, {}, {} {}", build.version, build.git_commit,
                     build.git_dirty ? " (modified)" : "", build.compiler, build.build_type,
                     build.compiler_flags);
}

std::string program_id() {
  const Build& build = this_build();
  if (!build.git_dirty && build.git_commit != "unknown") return build_id();
  static const std::string executable = executable_digest();
  return fmt::format("{}, executable {}", build_id(), executable);
}

RankInfo describe_process() {
  RankInfo info;
  info.hostname = core::host_name();
  const std::set<int> processors = core::thread_processors();
  std::set<int> cores;
  for (const int processor : processors) cores.insert(core::core_of(processor));
  info.cpu_list = core::processor_list(processors);
  info.core_list = core::processor_list(cores);
  info.device_name = core::cpu_model();
  if (info.device_name.empty()) info.device_name = "CPU";
  info.memory_bytes = core::installed_memory();
  return info;
}

}  // namespace lockstep::record
