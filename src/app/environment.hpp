// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "job.hpp"

namespace lockstep::app {

/// What the program has read about the environment of a rank, for `lockstep info`.
struct Fact {
  std::string name, value;
  std::string source;  ///< file, variable, option or system call
};

/// Returns launcher, processors, threads and limits of this rank. `share`: memory that each rank
/// may use.
std::vector<Fact> environment_facts(const Job& job, int rank, const MemoryLimit& share);

}  // namespace lockstep::app
