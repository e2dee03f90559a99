// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <optional>

#include "launcher.hpp"

namespace lockstep::comm {

/// Which namespaces separate this process from its launcher, for example because the launcher
/// starts each rank in a container of its own.
struct Separation {
  bool by_process_ids = false;  ///< PID namespace
  bool by_users = false;        ///< user namespace
};

/// Returns the separation from the launcher, which is the first ancestor without the variable that
/// announces the launch. `root`: directory that contains `proc`; `parent`: the parent process, 0 if
/// it is in another namespace. Tests replace both.
Separation separation_from(const Launch& launch, int parent,
                           const std::filesystem::path& root = "/");

/// Throws `Error` (output) if TMPDIR, TMP or TEMP names a directory in which this process cannot
/// create files: Open MPI ends a process without launcher then.
void require_session_directory(const EnvironmentLookup& lookup);

/// Variables of the environment that MPI reads when it is initialised. Values that the user or the
/// launcher has set take precedence; MPI libraries other than Open MPI ignore most of them.
class MpiEnvironment {
 public:
  explicit MpiEnvironment(const std::optional<Launch>& launch);
  /// Removes the variables that other parts of the program must not see.
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

 private:
  bool has_set_home_ = false;
};

}  // namespace lockstep::comm
