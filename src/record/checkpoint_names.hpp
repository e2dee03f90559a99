#pragma once

#include <filesystem>

namespace lockstep::record {

/// Returns the name of the temporary file that is renamed to `path` after it has been verified:
/// ".NAME.PID.tmp" in the same directory.
std::filesystem::path temporary_path(const std::filesystem::path& path);

/// Returns whether `path` has the name of such a temporary file of a checkpoint.
bool is_temporary_checkpoint(const std::filesystem::path& path);

/// Returns whether `path` has the name of a checkpoint or of such a file.
bool has_checkpoint_name(const std::filesystem::path& path);

}  // namespace lockstep::record
