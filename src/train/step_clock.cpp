#include "step_clock.hpp"

#include "lockstep/core/error.hpp"

namespace lockstep::train {

void StepClock::begin(std::int64_t step) {
  step_ = step;
  watchdog_.progress(step, record::phase_names.front().data());
  timeline_.mark(0);
  next_ = 1;
}

void StepClock::begin_body() { next_ = count_ = body; }

void StepClock::end(record::Phase phase) {
  core::check(next_ < first_free_mark, "a step has fewer phases than that");
  phases_[next_] = phase;
  timeline_.mark(next_);
  ++next_;
  if (next_ > body) count_ = next_;
  const std::size_t following = static_cast<std::size_t>(phase) + 1;
  watchdog_.progress(step_, following < record::phase_count ? record::phase_names[following].data()
                                                            : "step's end");
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
