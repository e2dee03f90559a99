// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "option.hpp"

// Rows of the option table (`options`), one function per group.
namespace lockstep::app {

std::vector<Option> communication_options();
std::vector<Option> device_options();

}  // namespace lockstep::app
