// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/trust.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep::core {

std::string distrust(const std::filesystem::path& path, std::optional<uid_t> also) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  const uid_t owner = status.st_uid;
  if (owner != 0 && owner != ::geteuid() && owner != also)
    return fmt::format("the user {} owns it", owner);
  const bool is_private_group = status.st_gid == owner;
  const mode_t others = is_private_group ? S_IWOTH : S_IWGRP | S_IWOTH;
  if ((status.st_mode & others) == 0) return {};
  return fmt::format("{} can write to it (its permissions are {:o})",
                     (status.st_mode & S_IWOTH) != 0
                         ? std::string("other users")
                         : fmt::format("users of the group {}", status.st_gid),
                     status.st_mode & 07777U);
}

namespace {

struct stat status_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return status;
}

/// Returns whether a new directory that only its owner may use is shown as writable by all users.
bool shows_wrong_permissions(const std::filesystem::path& directory) {
  const auto probe = directory / fmt::format(".lockstep-permissions-{}", ::getpid());
  if (::mkdir(probe.c_str(), private_directory) != 0) return false;
  const struct stat status = status_of(probe);
  ::rmdir(probe.c_str());
  // Another user cannot have replaced it by a directory of this user or of root.
  return (status.st_uid == ::geteuid() || status.st_uid == 0) && (status.st_mode & S_IWOTH) != 0;
}

}  // namespace

DirectoryRisk directory_risk(const std::filesystem::path& directory) {
  const std::string reason = distrust(directory);
  if (reason.empty()) return {};
  const struct stat own = status_of(directory), parent = status_of(directory / "..");
  const bool is_own = own.st_uid == ::geteuid() || own.st_uid == 0;
  const mode_t open = own.st_mode | (is_own ? 0 : parent.st_mode);
  return {reason, (open & S_IWOTH) != 0 && !shows_wrong_permissions(directory)};
}

std::error_code create_directories(const std::filesystem::path& path, mode_t mode) {
  std::error_code error;
  if (path.empty() || std::filesystem::is_directory(path, error)) return {};
  if (const auto failure = create_directories(path.parent_path(), mode)) return failure;
  if (::mkdir(path.c_str(), mode) == 0) return {};
  const int number = errno;  // another process may have created it
  if (number == EEXIST && std::filesystem::is_directory(path, error)) return {};
  return {number, std::generic_category()};
}

}  // namespace lockstep::core
