// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>

#include "lockstep/record/run_records.hpp"

namespace lockstep::record {

/// Information that the build system recorded at build time.
struct Build {
  std::string_view version;
  std::string_view git_commit;  ///< "unknown" if the source is not a git repository
  bool git_dirty = false;       ///< true if tracked files differed from the commit
  std::string_view compiler;    ///< "GNU 12.2.0"
  std::string_view compiler_flags;
  std::string_view build_type;
};

/// Returns the information about the running program.
const Build& this_build();

/// Returns a description of the build and the machine: version of Lockstep, commit, compiler,
/// flags, build type, version of HDF5, operating system, processor model.
Attributes versions();

/// Returns the environment variables on an allow-list (of Slurm, NCCL, MPI, OpenMP and oneDNN;
/// docs/reliability.md), sorted, except those whose names or values look like secrets.
Attributes environment_variables();

/// Returns `versions` and `environment_variables`.
Attributes provenance();

/// Returns a short text that identifies the build: version, commit, compiler, build type, flags.
/// All ranks must have the same text, because different builds may have different results.
std::string build_id();

/// Returns `build_id`, followed by a digest of the executable if the commit does not identify the
/// source, because it is unknown or files were modified.
std::string program_id();

/// Returns the host name, the processors that this process may use, the processor model and the
/// host memory. The ranks in the result are 0.
RankInfo describe_process();

}  // namespace lockstep::record
