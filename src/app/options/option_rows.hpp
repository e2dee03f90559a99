// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "option.hpp"

// The rows of the option table, one function per group.
namespace lockstep::app {

std::vector<Option> run_options();
std::vector<Option> network_options();
std::vector<Option> data_options();
std::vector<Option> optimiser_options();
std::vector<Option> communication_options();
std::vector<Option> device_options();
std::vector<Option> checkpoint_options();
std::vector<Option> output_options();
std::vector<Option> single_command_options();

}  // namespace lockstep::app
