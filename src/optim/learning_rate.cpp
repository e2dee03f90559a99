// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/optim/learning_rate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "lockstep/core/error.hpp"

namespace lockstep::optim {

namespace {

// Decreases from 1 at t = 0 to 0 at t = 1.
double half_cosine(double t) { return (1 + std::cos(std::numbers::pi * t)) / 2; }

double one_cycle(double peak, double t, double rise) {
  const double first = peak / 25;
  const double last = peak / 1e4;
  if (t < rise) return first + (peak - first) * (t / rise);
  return last + (peak - last) * half_cosine((t - rise) / (1 - rise));
}

double step_down(double peak, double t) {
  if (t < 0.5) return peak;
  return t < 0.75 ? peak / 10 : peak / 100;
}

}  // namespace

std::span<const core::NamedValue<ScheduleKind>> named_values(ScheduleKind) {
  static constexpr std::array<core::NamedValue<ScheduleKind>, 4> values{
      {{ScheduleKind::constant, "constant"},
       {ScheduleKind::step, "step", "divided by 10 after 1/2 and 3/4 of the steps"},
       {ScheduleKind::cosine, "cosine", "half cosine to 0"},
       {ScheduleKind::onecycle, "onecycle",
        "linear increase during 30 % of the steps, then half cosine"}}};
  return values;
}

std::span<const core::NamedValue<Scaling>> named_values(Scaling) {
  static constexpr std::array<core::NamedValue<Scaling>, 3> values{
      {{Scaling::none, "none"}, {Scaling::linear, "linear"}, {Scaling::sqrt, "sqrt"}}};
  return values;
}

double LearningRateSchedule::at(std::int64_t step) const {
  if (step < warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  const std::int64_t steps = std::max<std::int64_t>(total_steps - warmup_steps, 1);
  const double t =
      std::min(static_cast<double>(step - warmup_steps) / static_cast<double>(steps), 1.0);
  switch (kind) {
    case ScheduleKind::constant: return peak;
    case ScheduleKind::step: return step_down(peak, t);
    case ScheduleKind::cosine: return peak * half_cosine(t);
    case ScheduleKind::onecycle: return one_cycle(peak, t, warmup_steps > 0 ? 0.0 : 0.3);
  }
  core::fail(core::ExitStatus::internal, "unknown learning-rate schedule; please report it");
}

void Options::resolve() {
  struct Defaults {
    double learning_rate, momentum, weight_decay, trust;
  };
  const auto defaults = [&]() -> Defaults {
    switch (kind) {
      case Kind::sgd: return {0.1, 0.9, 5e-4, automatic};
      case Kind::lars: return {2, 0.9, 5e-4, 0.001};
      case Kind::adamw: return {0.001, automatic, 0.01, automatic};
    }
    core::fail(core::ExitStatus::internal, "unknown optimiser; please report it");
  }();
  const auto fill = [&](double& value, double standard, std::string_view name) {
    if (value == automatic) {
      value = standard;
    } else if (standard == automatic) {
      core::fail(
          core::ExitStatus::usage,
          fmt::format("--{} is not used by --optimizer {}; remove it", name, core::name(kind)));
    }
  };
  fill(learning_rate, defaults.learning_rate, "lr");
  fill(momentum, defaults.momentum, "momentum");
  fill(weight_decay, defaults.weight_decay, "weight-decay");
  fill(trust, defaults.trust, "trust-coefficient");
  if (nesterov && kind != Kind::sgd) {
    core::fail(
        core::ExitStatus::usage,
        fmt::format("--nesterov is not used by --optimizer {}; remove it", core::name(kind)));
  }
}

double Options::peak(std::int64_t global_batch) const {
  core::check(global_batch > 0 && reference_batch > 0, "batches are positive");
  const double ratio = static_cast<double>(global_batch) / static_cast<double>(reference_batch);
  switch (scaling) {
    case Scaling::none: return learning_rate;
    case Scaling::linear: return learning_rate * ratio;
    case Scaling::sqrt: return learning_rate * std::sqrt(ratio);
  }
  core::fail(core::ExitStatus::internal, "unknown learning-rate scaling; please report it");
}

}  // namespace lockstep::optim
