// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "option.hpp"

// Rows of the option table (`options`), one function per group.
namespace lockstep::app {

std::vector<Option> run_options();
std::vector<Option> network_options();
std::vector<Option> data_options();
std::vector<Option> optimiser_options();

}  // namespace lockstep::app
