#pragma once

#include <filesystem>

namespace lockstep::record {

/// Creates a directory of checkpoints and its missing parents. Throws `Error` (output) on failure.
void create_checkpoint_directory(const std::filesystem::path& directory);

/// Logs a warning if some other users could have replaced the checkpoints of the directory. Throws
/// `Error` (output) if any user could (`core::directory_risk`), or if `directory` is a file.
void require_own_checkpoints(const std::filesystem::path& directory);

}  // namespace lockstep::record
