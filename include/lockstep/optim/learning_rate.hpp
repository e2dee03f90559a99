#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::optim {

enum class ScheduleKind { constant, step, cosine, onecycle };
enum class Scaling { none, linear, sqrt };
std::string_view name(ScheduleKind kind);
std::string_view name(Scaling scaling);

/// Learning rate as a pure function of the step: nothing to save, nothing to advance.
struct LearningRateSchedule {
  ScheduleKind kind = ScheduleKind::constant;
  double peak = 0.1;              ///< after scaling with the batch
  std::int64_t total_steps = 1;   ///< of the whole run
  std::int64_t warmup_steps = 0;  ///< linear from peak / warmup_steps to peak (Goyal et al., 2017)

  /// Rate of step `step`, counted from 0. With t = k/n in step k of the n steps after the warm-up:
  ///   constant: peak
  ///   step:     peak, peak/10 from t = 1/2, peak/100 from t = 3/4
  ///   cosine:   peak (1 + cos(pi t)) / 2  (Loshchilov, Hutter 2017)
  ///   onecycle: linear from peak/25 to peak at t = 0.3, then cosine down to peak/1e4 (Smith 2018);
  ///             where a warm-up is given, that is the rise
  /// From `total_steps` on it stays at the value of t = 1.
  double at(std::int64_t step) const;
};

/// Scales a rate given for `reference_batch` to `global_batch`: not, by the ratio (Goyal et al.,
/// 2017), or by its square root (Krizhevsky 2014).
double scaled_rate(double rate, Scaling scaling, std::int64_t global_batch,
                   std::int64_t reference_batch);

}  // namespace lockstep::optim
