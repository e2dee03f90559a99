// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "lockstep/optim/learning_rate.hpp"
#include "lockstep/optim/update.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// What a run will do in each of its steps, which depends on the configuration alone. `step`:
/// number of completed steps of the run.
class RunSchedule {
 public:
  /// `config` must outlive this object.
  RunSchedule(const Config& config, std::int64_t steps_per_epoch);

  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  std::int64_t total_steps() const { return total_steps_; }
  bool is_over(std::int64_t step) const { return step >= total_steps_; }

  /// Returns the epoch, counted from 0, of the step that follows.
  std::int64_t epoch_after(std::int64_t step) const { return step / steps_per_epoch_; }
  /// Returns the number of the steps of the run at the end of that epoch.
  std::int64_t end_of_epoch_after(std::int64_t step) const;

  /// Returns whether the options require an evaluation after `step` steps.
  bool evaluates_after(std::int64_t step) const;

  /// Returns the learning rate of the step that follows.
  double learning_rate_after(std::int64_t step) const { return learning_rate_.at(step); }
  /// Returns the coefficients of the update in the step that follows.
  optim::Coefficients coefficients_after(std::int64_t step, float gradient_scale) const;

 private:
  const Config& config_;
  std::int64_t steps_per_epoch_, total_steps_;
  optim::LearningRateSchedule learning_rate_;
};

}  // namespace lockstep::train
