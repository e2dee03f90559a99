#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::train {

/// What this rank would like to happen after the step.
struct Wishes {
  bool stop = false;  ///< a signal came
  bool save = false;  ///< a checkpoint is due
};

/// What all ranks know after the step.
struct StepTotals {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t images = 0;
  bool stop = false;
  bool save = false;
};

/// The small sum of every step: results of the batch, and what the ranks wish, so that all decide
/// alike. Independent replicas (`--reducer none`) exchange nothing here: their totals are their
/// own, and nobody stops before the epoch's end.
class StepSums {
 public:
  StepSums(comm::Communicator& communicator, bool is_independent);

  /// Throws `AgreedError` (diverged) where a loss is not finite, naming the first such rank and
  /// `step`. Collective, unless independent.
  StepTotals exchange(const backend::BatchResult& result, Wishes wishes, std::int64_t step);

 private:
  void require_finite(std::int64_t step) const;

  comm::Communicator& communicator_;
  bool is_independent_;
  std::vector<double> values_;  ///< loss, correct, images, stop, save, and whose loss is not finite
};

}  // namespace lockstep::train
