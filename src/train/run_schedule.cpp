// SPDX-License-Identifier: BSD-3-Clause
#include "run_schedule.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep::train {

RunSchedule::RunSchedule(const Config& config, std::int64_t steps_per_epoch)
    : config_(config),
      steps_per_epoch_(steps_per_epoch),
      total_steps_(config.steps > 0 ? config.steps : config.epochs * steps_per_epoch),
      learning_rate_{.kind = config.optimiser.schedule,
                     .peak = config.optimiser.peak(config.global_batch),
                     .total_steps = total_steps_,
                     .warmup_steps = std::llround(config.optimiser.warmup_epochs *
                                                  static_cast<double>(steps_per_epoch))} {}

std::int64_t RunSchedule::end_of_epoch_after(std::int64_t step) const {
  return std::min(total_steps_, (epoch_after(step) + 1) * steps_per_epoch_);
}

bool RunSchedule::evaluates_after(std::int64_t step) const {
  const std::int64_t every = config_.evaluate_every;
  if (every < 0 || step == 0) return false;
  return is_over(step) || (every > 0 && step % (every * steps_per_epoch_) == 0);
}

optim::Coefficients RunSchedule::coefficients_after(std::int64_t step, float gradient_scale) const {
  return {.learning_rate = static_cast<float>(learning_rate_.at(step)),
          .momentum = static_cast<float>(config_.optimiser.momentum),
          .weight_decay = static_cast<float>(config_.optimiser.weight_decay),
          .nesterov = config_.optimiser.nesterov,
          .gradient_scale = gradient_scale,
          .trust = static_cast<float>(config_.optimiser.trust),
          .step = step + 1};
}

}  // namespace lockstep::train
