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
#include "lockstep/record/output_file.hpp"

namespace lockstep::record {

/// Non-owning view of a named float32 tensor; contiguous, last index fastest.
struct Tensor {
  std::string group;  ///< "state" (the network, with PyTorch's names) or "momentum"
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<float> values;
};

/// Integer attributes of the root: "step", "batches_tracked", "seed", ...
using Counters = std::vector<std::pair<std::string, std::int64_t>>;

/// Bytes of the longest text in a checkpoint.
inline constexpr std::size_t most_text_bytes = 16384;

/// Text attributes of the root that the digest covers: "run_id", "options".
using Texts = std::vector<std::pair<std::string, std::string>>;

/// All data of a checkpoint except its tensors.
struct CheckpointHeader {
  Counters counters;
  Texts texts;
};

/// Writes a checkpoint: the tensors as datasets /GROUP/NAME, `counters` and `texts` as attributes
/// of the root, and a digest of all of them. The data are written to a temporary file in the
/// directory of `path`, synced to disk, read back and verified; then the file is renamed to `path`.
/// An existing file at `path` is not changed before the rename, and not replaced if `mode` is
/// refuse. For each tensor "....running_mean"
/// of group "state", PyTorch's `num_batches_tracked` (an int64 scalar) is written with the value of
/// the counter "batches_tracked". Throws `Error` (output) if any of these operations fails.
void write_checkpoint(const std::filesystem::path& path, std::span<const Tensor> tensors,
                      const Counters& counters, const Texts& texts = {},
                      OverwriteMode mode = OverwriteMode::replace);

/// Whether a file must have a digest. If a file has a digest, it is always verified.
enum class Verify {
  required,    ///< checkpoints that Lockstep writes
  if_present,  ///< files of other programs (`--init-from`), which may have no digest
};

/// Reads `tensors` from the file and returns its counters. Throws `Error` (input), without changing
/// any tensor, if the file is missing or not HDF5, if a tensor is missing or has a different shape
/// or type, or if the digest does not match.
Counters read_checkpoint(const std::filesystem::path& path, std::span<const Tensor> tensors,
                         Verify verify);

/// Reads the header without verifying the digest, which needs the whole file. Throws `Error`
/// (input) if the file cannot be read.
CheckpointHeader skim_checkpoint(const std::filesystem::path& path);

/// Returns DIRECTORY/checkpoint-STEP.h5.
std::filesystem::path checkpoint_path(const std::filesystem::path& directory, std::int64_t step);

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
