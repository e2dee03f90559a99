#include "step_clock.hpp"

#include <algorithm>

#include "lockstep/core/error.hpp"

namespace lockstep::train {

std::size_t StepClock::count_marks(std::size_t buckets) {
  // Forward, backward, the wait for the sum of each bucket and its update, and the wait at the end.
  constexpr std::size_t forward_and_backward = 2, end = 1;
  return body + forward_and_backward + 2 * std::max<std::size_t>(buckets, 1) + end;
}

void StepClock::begin(std::int64_t step) {
  step_ = step;
  core::begin_activity(progress_, record::phase_names.front().data(), step);
  timeline_.mark(0);
  next_ = 1;
}

void StepClock::begin_body() { next_ = count_ = body; }

void StepClock::end(record::Phase phase) {
  core::check(next_ < phases_.size(), "a step has more phases than its buckets need");
  phases_[next_] = phase;
  timeline_.mark(next_);
  ++next_;
  if (next_ > body) count_ = next_;
  const std::size_t following = static_cast<std::size_t>(phase) + 1;
  core::begin_activity(
      progress_,
      following < record::phase_count ? record::phase_names[following].data() : "the end", step_);
}

record::PhaseSeconds StepClock::seconds() const {
  record::PhaseSeconds seconds{};
  double last = 0;
  for (std::size_t mark = 1; mark < count_; ++mark) {
    const double now = timeline_.seconds(mark);
    seconds[static_cast<std::size_t>(phases_[mark])] += now - last;
    last = now;
  }
  return seconds;
}

}  // namespace lockstep::train
