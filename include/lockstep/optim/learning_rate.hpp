// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/core/named_value.hpp"
#include "lockstep/optim/update.hpp"

namespace lockstep::optim {

enum class ScheduleKind { constant, step, cosine, onecycle };
enum class Scaling { none, linear, sqrt };
std::span<const core::NamedValue<ScheduleKind>> named_values(ScheduleKind);
std::span<const core::NamedValue<Scaling>> named_values(Scaling);

/// Options of the optimiser and of its learning rate.
struct Options {
  static constexpr double automatic = -1;  ///< the default of the optimiser, see `resolve`

  Kind kind = Kind::sgd;
  VectorDecay vector_decay = VectorDecay::on;
  double learning_rate = automatic;
  double momentum = automatic;  ///< of SGD and LARS
  double weight_decay = automatic;
  double trust = automatic;  ///< of LARS
  bool nesterov = false;     ///< of SGD
  ScheduleKind schedule = ScheduleKind::constant;
  double warmup_epochs = 0;
  Scaling scaling = Scaling::none;
  std::int64_t reference_batch = 128;

  /// Returns the learning rate scaled from `reference_batch` to `global_batch`: times 1 (none),
  /// times r = global_batch / reference_batch (linear; Goyal et al., 2017), or times sqrt(r) (sqrt;
  /// Krizhevsky 2014).
  double peak(std::int64_t global_batch) const;

  /// Replaces automatic values that the optimiser uses by their defaults. Throws `Error` (usage) if
  /// a value is given that the optimiser does not use.
  void resolve();
};

/// Learning-rate schedule. The rate is a pure function of the step, so the schedule has no state to
/// save or restore.
struct LearningRateSchedule {
  ScheduleKind kind = ScheduleKind::constant;
  double peak = 0.1;             ///< peak learning rate, after scaling with the batch size
  std::int64_t total_steps = 1;  ///< steps of the whole run, including the warm-up
  /// Steps of the warm-up: linear increase from peak / warmup_steps to peak (Goyal et al., 2017).
  std::int64_t warmup_steps = 0;

  /// Returns the learning rate of step `step` (counted from 0). After the warm-up, with t = k/n for
  /// step k of the n remaining steps:
  ///   constant: peak
  ///   step:     peak, peak/10 from t = 1/2, peak/100 from t = 3/4
  ///   cosine:   peak (1 + cos(pi t)) / 2  (Loshchilov, Hutter 2017)
  ///   onecycle: linear from peak/25 to peak at t = 0.3, then cosine down to peak/1e4 (Smith 2018);
  ///             if warmup_steps > 0, the warm-up replaces the linear increase
  /// For steps from `total_steps` on, t = 1.
  double at(std::int64_t step) const;
};

}  // namespace lockstep::optim
