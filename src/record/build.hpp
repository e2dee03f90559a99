// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

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

}  // namespace lockstep::record
