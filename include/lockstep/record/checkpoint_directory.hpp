// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/handle.hpp"
#include "lockstep/record/checkpoint.hpp"

namespace lockstep::record {

/// Returns DIRECTORY/checkpoint-STEP.h5.
std::filesystem::path checkpoint_path(const std::filesystem::path& directory, std::int64_t step);

/// Returns whether `path` has the name of a checkpoint or of its temporary file.
bool has_checkpoint_name(const std::filesystem::path& path);

/// Returns the newest valid checkpoint in `directory`, or nullopt if there is none. A checkpoint is
/// valid if its digest matches. Checkpoints are ordered by the counter "sequence", then by step.
/// Logs a warning for each damaged checkpoint that it skips. If not `verify`, reads no tensors and
/// returns the checkpoint that it would verify first.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& directory,
                                                       bool verify = true);

/// Writes the checkpoints of one run to a directory and deletes old ones. Damaged checkpoints and
/// checkpoints of other runs are neither counted nor deleted.
class CheckpointStore {
 public:
  /// `keep`: number of valid checkpoints of the run to keep, at least 1. `options`: a text that is
  /// stored in all checkpoints, for example the options of the run; a text of more than
  /// `most_text_bytes` is not stored.
  CheckpointStore(std::filesystem::path directory, int keep, std::string run_id,
                  std::string options = "");

  /// Writes DIRECTORY/checkpoint-STEP.h5 with the additional counter "sequence", which is larger
  /// than in every other checkpoint of the directory, and the texts "run_id" and "options". If a
  /// file that is not a readable checkpoint of this run has this name, it is renamed first and
  /// kept. Throws `Error` (output).
  void write(std::int64_t step, std::span<const Tensor> tensors, Counters counters);

  /// Deletes all valid checkpoints of the run except the `keep` most recently written ones, and
  /// temporary files of processes that have ended. The first call reads all of them. Throws `Error`
  /// (output) if the directory cannot be read.
  void prune();

  /// Calls `write`, then `prune`.
  void save(std::int64_t step, std::span<const Tensor> tensors, Counters counters) {
    write(step, tensors, std::move(counters));
    prune();
  }

 private:
  bool is_valid(const std::filesystem::path& path);

  std::filesystem::path directory_;
  std::size_t keep_;
  std::string run_id_, options_;
  std::vector<std::filesystem::path> valid_;  ///< files whose digest has been verified
};

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
