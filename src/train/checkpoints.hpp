#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/record/checkpoint.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// Where a run stands, beside its tensors. All of it must be saved for an exact resume; samples,
/// augmentation and learning rate are functions of the step.
struct Progress {
  std::int64_t step = 0;           ///< steps done
  std::int64_t best_correct = -1;  ///< of the best evaluation so far; -1: none
};

/// What a checkpoint must have in common with the run that goes on from it.
struct RunIdentity {
  std::int64_t steps_per_epoch = 0;
  std::string data_digest;
};

/// Saves and restores a run. Rank 0 alone reads and writes; what it read it sends to the others.
class Checkpoints {
 public:
  Checkpoints(const Config& config, const graph::Graph& graph, backend::ModelState& state,
              comm::Communicator& communicator, RunIdentity identity);

  /// Loads what `--resume` or `--init-from` name into the state, or leaves it. Throws
  /// `AgreedError`: input for a file that is missing or damaged, usage for one of another run,
  /// output where the checkpoint directory cannot be used or holds another run. Collective.
  Progress restore();

  /// Whether a checkpoint should be saved after `step` steps. True on rank 0 alone.
  bool is_due(std::int64_t step) const;

  /// Writes a checkpoint, on rank 0 where a directory was given; returns whether one stands there.
  bool save(const Progress& progress);

 private:
  Progress restore_on_rank_0();
  Progress resume_from(const std::filesystem::path& path);
  void prepare_directory() const;
  bool writes() const { return communicator_.rank() == 0 && !config_.checkpoint_dir.empty(); }

  const Config& config_;
  backend::ModelState& state_;
  comm::Communicator& communicator_;
  RunIdentity identity_;
  std::vector<record::Tensor> weights_, all_;
  std::int64_t saved_step_ = -1;
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
};

}  // namespace lockstep::train
