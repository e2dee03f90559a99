#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lockstep/record/profile.hpp"

namespace lockstep::app {

/// Returns the tables of a profile: operations of the same kind, shape and phase in one row, the
/// kernels of the GPU, and what the profile costs.
std::string describe(const record::Profile& profile);

nlohmann::json to_json(const record::Profile& profile);

}  // namespace lockstep::app
