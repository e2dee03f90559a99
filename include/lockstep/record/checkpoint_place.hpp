// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

#include "lockstep/core/descriptor.hpp"

namespace lockstep::record {

/// Creates a directory of checkpoints and its missing parents. Throws `Error` (output) on failure.
void create_checkpoint_directory(const std::filesystem::path& directory);

/// Logs a warning if some other users could have replaced the checkpoints of the directory. Throws
/// `Error` (output) if any user could (`core::directory_risk`), or if `directory` is a file.
void require_own_checkpoints(const std::filesystem::path& directory);

/// Exclusive use of a directory of checkpoints: a lock on the file DIRECTORY/.lockstep-run, which
/// contains host, process and job. The kernel releases the lock if the process is killed. If the
/// file system has no locks, or the directory is not writable, the directory is not locked.
class CheckpointClaim {
 public:
  /// Throws `Error` (output) if another process has the lock. Logs a warning if the file system has
  /// no locks.
  explicit CheckpointClaim(const std::filesystem::path& directory);
  /// Deletes the file.
  ~CheckpointClaim();
  CheckpointClaim(const CheckpointClaim&) = delete;
  CheckpointClaim& operator=(const CheckpointClaim&) = delete;

 private:
  std::filesystem::path path_;
  core::Descriptor lock_;
};

}  // namespace lockstep::record
