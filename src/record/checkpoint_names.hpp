// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace lockstep::record {

inline constexpr std::string_view checkpoint_format = "lockstep-checkpoint";
/// Version of the format that this program writes and reads.
inline constexpr std::int64_t checkpoint_version = 2;

/// Returns the name of the temporary file that is renamed to `path` after it has been verified:
/// ".NAME.PID.tmp" in the same directory.
std::filesystem::path temporary_path(const std::filesystem::path& path);

/// Returns whether `path` has the name of such a temporary file of a checkpoint.
bool is_temporary_checkpoint(const std::filesystem::path& path);

/// Returns whether `path` has the name of a checkpoint or of such a file.
bool has_checkpoint_name(const std::filesystem::path& path);

}  // namespace lockstep::record
