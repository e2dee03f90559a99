// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lockstep/record/run_records.hpp"

namespace lockstep::app {

/// Returns the highest rates and the table of the operations, with those of the same kind, shape
/// and phase in one row.
std::string describe_operations(const record::Profile& profile);

/// Returns the operations of a profile and what the profile costs.
std::string describe(const record::Profile& profile);

nlohmann::json to_json(const record::Profile& profile);

}  // namespace lockstep::app
