// SPDX-License-Identifier: BSD-3-Clause
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

/// What other users can do to a directory whose files are read as data, without being named.
struct DirectoryRisk {
  std::string reason;    ///< empty if there is none
  bool is_high = false;  ///< whether any user could have put files into it
};

/// Returns the risk of a directory; none if it does not exist. The risk is high if all users can
/// write to the directory, or if another user owns it and could have created it because all users
/// can write to its parent (/tmp). It is not high if the file system reports such permissions also
/// for a directory that this function creates, because it does not store permissions (CIFS, NTFS,
/// 9p, some mounts of containers).
DirectoryRisk directory_risk(const std::filesystem::path& directory);

/// Creates a directory and its missing parents with the permissions `mode`, less those of the
/// umask. Returns the error; none if the directory exists already.
std::error_code create_directories(const std::filesystem::path& path, mode_t mode);

/// Permissions of directories that only this user can read, and of those that others can read.
inline constexpr mode_t private_directory = 0700, readable_directory = 0755;

}  // namespace lockstep::core
