// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lockstep/backend/device.hpp"
#include "lockstep/train/run_summary.hpp"

namespace lockstep::app {

/// Returns the final summary: images per second in the format of Horovod's benchmarks, times and
/// accuracy.
std::string describe_summary(const train::RunSummary& summary, int ranks, backend::DeviceKind kind);
/// Returns the results of a training on `ranks` ranks.
nlohmann::json to_json(const train::RunSummary& summary, int ranks);

}  // namespace lockstep::app
