#pragma once

#include <filesystem>

namespace lockstep::record {

/// The file beside `path` that becomes `path` once it is complete: ".NAME.PID.tmp".
std::filesystem::path temporary_path(const std::filesystem::path& path);

/// Whether the file bears such a name.
bool is_temporary_checkpoint(const std::filesystem::path& path);

}  // namespace lockstep::record
