// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <sstream>

#include "lockstep/comm/agreed_error.hpp"
#include "lockstep/core/error.hpp"
#include "mpi_check.hpp"

namespace lockstep::comm {

namespace {

bool is_digit(char character) { return std::isdigit(static_cast<unsigned char>(character)) != 0; }

/// Returns the version if the word is one, such as "v5.0.11" or "2021.19"; otherwise an empty text.
std::string version_in(std::string_view word) {
  if (word.starts_with('v')) word.remove_prefix(1);
  return word.empty() || !is_digit(word.front()) ? "" : std::string(word);
}

/// Returns whether the word is no part of a name, for example in "MPICH Version:  5.0.2".
bool is_filler(const std::string& word) {
  constexpr std::array<std::string_view, 6> fillers{":",       "Library", "Version",
                                                    "version", "VERSION", "Version:"};
  return std::ranges::find(fillers, word) != fillers.end();
}

namespace fs = std::filesystem;

fs::path canonical(const fs::path& path) {
  std::error_code failed;
  const fs::path found = fs::canonical(path, failed);
  return failed ? path : found;
}

bool is_below(const fs::path& path, const fs::path& folder) {
  const auto [end, ignored] = std::ranges::mismatch(folder, path);
  return end == folder.end();
}

/// Returns whether the folder contains Open MPI's texts, and with them its components, but no
/// library: programs and libraries were copied elsewhere than the rest of the installation.
bool is_copy_without_library(const fs::path& prefix) {
  std::error_code failed;
  if (!fs::is_directory(prefix / "share" / "openmpi", failed)) return false;
  for (const char* const name : {"lib", "lib64"}) {
    for (fs::recursive_directory_iterator entry(prefix / name, failed), end; entry != end;
         entry.increment(failed)) {
      const bool is_library = entry->path().filename().string().starts_with("libmpi.so");
      if (is_library && fs::exists(entry->path(), failed)) return false;
    }
  }
  return true;
}

/// `fault`: a text with which the description of the library is a sentence. Rank 0 reports the
/// error.
[[noreturn]] void refuse(const MpiLibrary& library, const EnvironmentLookup& lookup,
                         const std::string& fault, const std::string& remedy) {
  constexpr int reporter = 0;
  const char* const rank = lookup("PMIX_RANK");
  throw AgreedError(
      core::ExitStatus::usage,
      fmt::format("{} the MPI library of this process, {} ({}); {}", fault,
                  name_and_version(library.description), library.file.string(), remedy),
      reporter, rank == nullptr ? reporter : std::atoi(rank));
}

}  // namespace

MpiLibrary loaded_mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  MpiLibrary library{{text.data(), static_cast<std::size_t>(length)}, {}};
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&MPI_Get_library_version), &info) != 0)
    library.file = canonical(info.dli_fname);
  return library;
}

void refuse_foreign_mpirun(const MpiLibrary& library, const EnvironmentLookup& lookup) {
  const auto mentions = [&](std::string_view text) {
    return library.description.find(text) != std::string::npos;
  };
  if (lookup("PMIX_NAMESPACE") != nullptr && library.is_mpich() && !mentions("pmix")) {
    refuse(library, lookup,
           "a launcher with PMIx (mpirun of Open MPI, srun --mpi=pmix) cannot start ranks with",
           "start with the mpirun of this library, or with srun --mpi=pmi2");
  }
  const char* const prefix = lookup("OPAL_PREFIX");
  const bool is_shared = library.file.filename().string().starts_with("libmpi");
  if (!mentions("Open MPI") || prefix == nullptr || !is_shared) return;
  if (is_below(library.file, canonical(prefix)) || is_copy_without_library(prefix)) return;
  refuse(
      library, lookup,
      fmt::format("OPAL_PREFIX={}, of mpirun or of the environment, is not the prefix of", prefix),
      fmt::format("start with the mpirun of this library, unset OPAL_PREFIX, or set "
                  "LD_LIBRARY_PATH={}/lib",
                  prefix));
}

std::string name_and_version(std::string_view description) {
  std::string line(description.substr(0, description.find_first_of(",\n")));
  // Cray writes "MPI VERSION    : CRAY MPICH version 8.1".
  if (line.starts_with("MPI VERSION")) line.erase(0, line.find(':') + 1);
  std::istringstream words(line);
  std::string name;
  for (std::string word; words >> word;) {
    if (const std::string version = version_in(word); !version.empty() && !name.empty())
      return name + ' ' + version;
    if (const auto mark = word.find("(R)"); mark != std::string::npos) word.erase(mark, 3);
    if (!is_filler(word) && !word.empty()) name += name.empty() ? word : ' ' + word;
  }
  return line;
}

}  // namespace lockstep::comm
