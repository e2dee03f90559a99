// SPDX-License-Identifier: BSD-3-Clause
// Only this file includes the generated header, so a new commit recompiles only this file.
#include "build_info.hpp"

#include "build.hpp"

namespace lockstep::record {

const Build& this_build() {
  static constexpr Build build{build_info::version,        build_info::git_commit,
                               build_info::git_dirty,      build_info::compiler,
                               build_info::compiler_flags, build_info::build_type};
  return build;
}

}  // namespace lockstep::record
