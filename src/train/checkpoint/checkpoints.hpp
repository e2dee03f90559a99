// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint_tensors.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/record/checkpoint.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/pipeline/pipeline.hpp"

namespace lockstep::train {

/// State of a run apart from its tensors. An exact resume needs all of it; samples, augmentation
/// and learning rate are functions of the step.
struct RunState {
  std::int64_t step = 0;             ///< number of completed steps
  std::int64_t evaluated_step = -1;  ///< completed steps at the last evaluation; -1: none yet
  std::int64_t last_correct = -1;    ///< correct test images in that evaluation; -1: unknown
  std::int64_t best_correct = -1;    ///< the same in the best evaluation so far
  std::optional<backend::LossScale> loss_scale;  ///< of this rank; empty if it is constant
};

/// Properties that a checkpoint must share with the run that resumes it.
struct RunIdentity {
  std::int64_t steps_per_epoch = 0;
  std::string data_digest;
  Entries options;  ///< may differ; then a warning names the changes
};

/// Saves and restores a run. Only rank 0 reads and writes files; it writes them in the background.
class Checkpoints {
 public:
  /// `graph`, `state`: of this rank. `data_parallel`: the data-parallel group, whose ranks have
  /// equal states. `world`: all ranks. `pipeline` may be null. All must outlive this object.
  Checkpoints(const Config& config, const graph::Graph& graph, backend::ModelState& state,
              comm::Communicator& data_parallel, comm::Communicator& world,
              const Pipeline* pipeline, std::span<float> reducer_state, RunIdentity identity);

  /// Loads the file that `--resume` or `--init-from` names into the state, if there is one. Throws
  /// `AgreedError`: input if a file is missing or damaged, usage if it belongs to another run,
  /// output if the checkpoint directory cannot be used or contains another run. Collective: all
  /// ranks must call this.
  RunState restore();

  /// Returns the identifier of the run: that of the checkpoint after a resume, otherwise a new one.
  /// Valid on rank 0.
  const std::string& run_id() const { return run_id_; }
  /// Returns the number of processes that have worked on the run, including this one. Valid on rank
  /// 0.
  std::int64_t part() const { return part_; }
  /// Returns the warnings of `restore` about differences between the run before and after the
  /// resume. Valid on rank 0.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Returns whether `save` should be called after `step` steps, because a checkpoint is due or the
  /// last one could not be written; always false on ranks other than 0.
  bool is_due(std::int64_t step) const;

  /// Copies the state if a directory was given and the progress has changed since the last
  /// checkpoint, and starts to write it in the background; before that, waits until the last
  /// checkpoint is complete. All ranks return at the same time. Throws `AgreedError` (output) if
  /// the last checkpoint could not be written. Collective: all ranks must call this.
  void save(const RunState& run);

  /// Blocks until the last checkpoint is complete and on the disk. Returns whether the directory
  /// contains a checkpoint of this run. Throws the same errors as `save`. Collective: all ranks
  /// must call this.
  bool wait_until_written();

  /// Returns the step of the newest checkpoint in the directory that this process has saved or
  /// resumed from; -1 if there is none. Call `wait_until_written` first.
  std::int64_t kept_step() const { return is_saved_ ? saved_step_ : -1; }
  /// Returns the expected seconds until a checkpoint that `save` starts now is complete: the time
  /// of the last one, or an estimate from the bytes of the state; twice this time if the last one
  /// is still being written. 0 on ranks other than 0, and without a directory.
  double expected_seconds() const;

 private:
  /// Contents of a file that rank 0 has read.
  struct Found {
    RunState run;
    bool has_rank_states = false;
    bool has_loss_scale = false;
    bool has_reducer_state = false;
    bool is_saved = false;     ///< the file is in the checkpoint directory
    bool has_weights = false;  ///< a file was read
  };

  Found restore_on_rank_0();
  Found resume_from(const std::filesystem::path& path);
  void warn(std::string warning);
  void warn_of_changed_options(const std::filesystem::path& path, const std::string& saved);
  void warn_of_later_checkpoints(const std::filesystem::path& resumed, std::int64_t step) const;
  void wait();
  bool writes() const { return communicator_.rank() == 0 && has_directory_; }

  const Config& config_;
  const CheckpointOptions& options_;
  backend::ModelState& state_;
  comm::Communicator& data_parallel_;
  comm::Communicator& communicator_;  ///< all ranks
  RunIdentity identity_;
  std::string run_id_ = record::new_run_id();
  std::int64_t part_ = 1;
  std::vector<std::string> warnings_;
  bool has_directory_;  ///< whether rank 0 has a directory; the same on all ranks
  /// Scale, steps since it changed and, with AdamW, skipped steps, stored as a tensor.
  std::array<float, 3> loss_scale_{};
  const record::Tensor loss_scale_tensor_;
  std::vector<record::Tensor> own_;            ///< weights and optimiser of this rank
  std::vector<record::Tensor> reducer_state_;  ///< of this rank; empty if the reducer keeps none
  RankState rank_state_;
  /// What the other replicas have in addition to the state of rank 0: /rank_R/GROUP.NAME in the
  /// file, for example /rank_1/state.bn1.running_mean.
  RankTensors replica_states_, reducer_states_;
  /// The states of the other stages of the first replica: a checkpoint has the tensors of the whole
  /// network, as if one rank had trained it.
  RankTensors stage_states_;
  std::optional<record::CheckpointClaim> claim_;  ///< like `writer_`, which it outlives
  std::optional<CheckpointWriter> writer_;        ///< on rank 0, if there is a directory
  std::vector<record::Tensor> gathered_;          ///< on rank 0: tensors that other ranks sent
  std::int64_t saved_step_ = 0;  ///< step of the last checkpoint, or at which the run resumed
  std::int64_t saved_evaluated_step_ = -1;  ///< evaluated step of the last checkpoint
  bool is_saved_ = false;                   ///< the directory contains that checkpoint
  double saved_at_ = core::host_seconds();
};

}  // namespace lockstep::train
