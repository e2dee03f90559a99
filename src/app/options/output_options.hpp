// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "option.hpp"

// Rows of the option table (`options`), one function per group.
namespace lockstep::app {

std::vector<Option> checkpoint_options();
std::vector<Option> output_options();
std::vector<Option> single_command_options();

}  // namespace lockstep::app
