// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/record/checkpoint.hpp"

// Counters of a checkpoint from which a run resumes. `path`: of the checkpoint, for messages.
namespace lockstep::train {

/// Returns the counter `name`. Throws `Error` (input) if there is none.
std::int64_t counter(const record::Counters& counters, std::string_view name,
                     const std::filesystem::path& path);

/// Returns the value of the property `name` of a run as text.
std::string text_of(std::string_view name, std::int64_t value);

/// Returns what to do so that the property `name` of a run is `saved`, as in its checkpoint.
std::string option_that_fits(std::string_view name, std::int64_t saved, int replicas);

}  // namespace lockstep::train
