#pragma once

#include <string_view>

namespace lockstep::record {

/// What the build system knew when this was built.
struct Build {
  std::string_view version;
  std::string_view git_commit;  ///< "unknown" outside git
  bool git_dirty = false;       ///< tracked files differed from the commit
  std::string_view compiler;    ///< "GNU 12.2.0"
  std::string_view compiler_flags;
  std::string_view build_type;
};

const Build& this_build();

}  // namespace lockstep::record
