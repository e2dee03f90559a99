// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/record/checkpoint.hpp"
#include "lockstep/record/checkpoint_directory.hpp"

// Copies of the tensors of a checkpoint: of other ranks, and while a file is written.
namespace lockstep::train {

/// Copies tensors of the ranks other than 0 to rank 0 for a checkpoint, and back after a resume.
class RankTensors {
 public:
  /// `own`: views of this rank's tensors, with their names in the file; not used on rank 0.
  /// Collective: all ranks must call this.
  RankTensors(std::vector<record::Tensor> own, comm::Communicator& communicator);

  /// Returns views of the copies on rank 0, to be written to a file or filled from one; empty on
  /// the other ranks. They are valid until `distribute`.
  const std::vector<record::Tensor>& copies();

  /// Copies the values of all ranks to rank 0. Collective: all ranks must call this.
  void gather();

  /// Sends each rank the values that rank 0 has for it, and frees the copies. Collective: all ranks
  /// must call this.
  void distribute();

 private:
  std::vector<record::Tensor> own_;
  comm::Communicator& communicator_;
  std::vector<record::Tensor> copies_;  ///< on rank 0; without values until needed
  std::vector<int> ranks_;              ///< of each of `copies_`
  core::Buffer memory_;                 ///< of all `copies_`
};

/// Saves checkpoints in a background thread, one at a time, so that the training continues while a
/// file is written.
class CheckpointWriter {
 public:
  /// `live`: the tensors that the training changes. Allocates memory for a copy of them.
  CheckpointWriter(record::CheckpointStore store, std::vector<record::Tensor> live);

  /// Copies the live tensors and starts to save them with `others`, whose values must not change
  /// before `wait` returns. `wait` must have been called since the previous `start`. Throws
  /// `Error` (out_of_memory) if no thread can be started.
  void start(std::int64_t step, const std::vector<record::Tensor>& others,
             record::Counters counters);

  /// Returns whether the last checkpoint could not be saved; `wait` then throws. Does not block.
  bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }

  /// Returns whether a checkpoint is being saved. Does not block.
  bool is_saving() const { return is_saving_.load(std::memory_order_acquire); }

  /// Returns the seconds that the last complete checkpoint took; 0 if there is none.
  double last_seconds() const { return last_seconds_.load(std::memory_order_relaxed); }

  /// Blocks until no checkpoint is being saved: the file has its name and is on the disk. Throws
  /// `Error` if it could not be saved.
  void wait();

 private:
  record::CheckpointStore store_;
  std::vector<record::Tensor> live_;
  std::vector<record::Tensor> copies_;  ///< views of `memory_`
  core::Buffer memory_;
  std::optional<core::Error> failure_;  ///< written by the thread before `has_failed_`
  std::atomic<bool> has_failed_ = false;
  std::atomic<bool> is_saving_ = false;
  std::atomic<double> last_seconds_ = 0;
  // Declared last: its destructor waits for the thread, which uses the other members.
  std::jthread thread_;
};

}  // namespace lockstep::train
