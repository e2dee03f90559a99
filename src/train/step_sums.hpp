#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::train {

/// Requests of this rank that take effect after the step.
struct Wishes {
  bool stop = false;  ///< a signal was received
  bool save = false;  ///< a checkpoint is due
};

/// Results and requests of a step, summed over all ranks; those of this rank alone if the replicas
/// are independent.
struct StepTotals {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t images = 0;
  bool stop = false;
  bool save = false;
};

/// All-reduce of a few values in every step: the results of the batch and the requests of the
/// ranks, so that all ranks make the same decisions. Independent replicas (`--reducer none`) do not
/// communicate here: their totals are those of each rank alone, and no rank stops before the end of
/// the epoch.
class StepSums {
 public:
  StepSums(comm::Communicator& communicator, bool is_independent);

  /// Returns the totals of step `step`. Throws `AgreedError` (diverged) if the loss of any rank is
  /// not finite, naming the first of these ranks and `step`; if the replicas are independent,
  /// throws `Error` (diverged) on the affected rank only. Collective unless the replicas are
  /// independent.
  StepTotals exchange(const backend::BatchResult& result, Wishes wishes, std::int64_t step);

 private:
  void require_finite(std::int64_t step) const;

  comm::Communicator& communicator_;
  bool is_independent_;
  std::vector<double> values_;  ///< loss, correct, images, stop, save, and one flag per rank for a
                                ///< loss that is not finite
};

}  // namespace lockstep::train
