#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/record/profile.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::app {

/// Throws `AgreedError` (output) if the file of --trace exists and --overwrite is not given, or if
/// it cannot be written. Collective.
void check_trace(const train::Config& config, comm::Communicator& communicator);

/// Writes the text of a trace. Throws `Error` (output) on failure.
void write_trace(const std::filesystem::path& path, const std::string& trace);

/// Returns the tables of a profile: operations of the same kind, shape and phase in one row, the
/// kernels of the GPU, and what the profile costs.
std::string describe(const record::Profile& profile);

nlohmann::json to_json(const record::Profile& profile);

}  // namespace lockstep::app
