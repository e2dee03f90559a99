#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

// Whether a file or directory can be used on a machine that other users share. Files that are
// loaded as machine code, or without being asked for, must not come from other users.
namespace lockstep::core {

/// Returns why a file or directory must not be used: another user owns it, or other users can write
/// to it. Returns an empty text if it can be used or does not exist. Trusted owners are this user,
/// root and `also`. Other users are those of the group, unless the group has the number of the
/// owner (the private group of that user), and all others. Symbolic links are followed.
std::string distrust(const std::filesystem::path& path, std::optional<uid_t> also = {});

/// Creates a directory and its missing parents with the permissions `mode`, less those of the
/// umask. Returns the error; none if the directory exists already.
std::error_code create_directories(const std::filesystem::path& path, mode_t mode);

/// Permissions of directories that only this user can read, and of those that others can read.
inline constexpr mode_t private_directory = 0700, readable_directory = 0755;

}  // namespace lockstep::core
