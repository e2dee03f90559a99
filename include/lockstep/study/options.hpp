// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

// Options of the studies besides those of their trainings and plans.
namespace lockstep::study {

/// Options of a ladder (ladder.hpp).
struct LadderOptions {
  std::int64_t start = 32;  ///< first batch per rank
};

/// Options of a profile (profile.hpp).
struct ProfileOptions {
  std::int64_t steps = 0;  ///< steps that are profiled after the training; 0: none
  std::string trace;       ///< file for these steps in trace-event format; empty: none
};

/// Options of the measurements of layers and stacks (layers.hpp, stack.hpp).
struct LayerOptions {
  std::string list;  ///< as for `graph::parse_layers`; empty: default layers of the command
};

}  // namespace lockstep::study
