#pragma once

#include <cstdint>

#include "lockstep/optim/sgd.hpp"
#include "lockstep/train/profile.hpp"
#include "lockstep/train/trainer.hpp"
#include "replica.hpp"
#include "training_step.hpp"

namespace lockstep::train {

/// Where the profiled steps take their batches from.
struct ProfilePosition {
  std::int64_t epoch = 0;  ///< of the sampler, counted from 0
  std::int64_t steps_per_epoch = 1;
  std::int64_t last_step = 0;  ///< steps of the run that are complete
};

/// Executes pairs of steps, one with the profile and one without, whose updates leave the
/// parameters as they are, and returns their times. No step may be in flight; the replica must not
/// be trained further, because its momentum and its running statistics change. The times of the
/// result are complete on rank 0. Throws `AgreedError`. Collective over all ranks.
ProfileResult run_profile(const TrainingContext& context, Replica& replica, TrainingStep& step,
                          const ProfilePosition& position);

}  // namespace lockstep::train
