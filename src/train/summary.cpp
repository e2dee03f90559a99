#include "lockstep/train/summary.hpp"

#include <algorithm>
#include <numeric>

#include "lockstep/record/phase.hpp"

namespace lockstep::train {

namespace {

constexpr auto index_of(record::Phase phase) { return static_cast<std::size_t>(phase); }

double sum(const std::vector<double>& values, std::size_t from = 0) {
  return std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(from), values.end(), 0.0);
}

}  // namespace

void Summariser::add(const record::EpochRecord& epoch) {
  ++epochs_;
  const std::size_t steps = epoch.loss.size();
  summary_.steps += static_cast<std::int64_t>(steps);
  if (steps > 0) {
    summary_.train_loss = epoch.train_loss;
    summary_.train_accuracy = epoch.train_accuracy;
  }
  if (std::isfinite(epoch.test_accuracy)) {
    summary_.last_test_accuracy = epoch.test_accuracy;
    summary_.last_test_loss = epoch.test_loss;
    // The first one is compared with NaN.
    summary_.best_test_accuracy = std::fmax(summary_.best_test_accuracy, epoch.test_accuracy);
  }
  if (epoch.phase_seconds.empty()) return;  // gathered on rank 0 alone
  const bool is_complete = static_cast<std::int64_t>(steps) == steps_per_epoch_;
  if (steps == 0 || epochs_ > 2 || (epochs_ == 2 && summary_.epoch_complete && !is_complete))
    return;

  step_seconds_.clear();
  step_images_.assign(epoch.images.begin(), epoch.images.end());
  double training = 0, exposed = 0, all = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    double slowest = 0, slowest_training = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const double* phases =
          epoch.phase_seconds.data() + (step * ranks_ + rank) * record::phase_count;
      const double total = std::accumulate(phases, phases + record::phase_count, 0.0);
      slowest = std::max(slowest, total);
      slowest_training =
          std::max(slowest_training, total - phases[index_of(record::Phase::data_wait)]);
      exposed += phases[index_of(record::Phase::exposed_communication)];
      all += total;
    }
    step_seconds_.push_back(slowest);
    training += slowest_training;
  }
  summary_.timed_epoch = epoch.epoch;
  summary_.epoch_complete = is_complete;
  summary_.epoch_seconds = sum(step_seconds_);
  summary_.training_seconds = training;
  summary_.exposed_share = exposed / all;

  // A first epoch holds the warm-up; its first tenth, at most 10 steps, is left out.
  const std::size_t warm_up =
      epochs_ >= 2 || steps < 2 ? 0 : std::clamp<std::size_t>(steps / 10, 1, 10);
  const double seconds = sum(step_seconds_, warm_up);
  summary_.timed_steps = static_cast<std::int64_t>(steps - warm_up);
  summary_.images_per_second = sum(step_images_, warm_up) / seconds;
  double squares = 0;
  for (std::size_t step = warm_up; step < steps; ++step) {
    const double off = step_images_[step] / step_seconds_[step] - summary_.images_per_second;
    squares += off * off;
  }
  summary_.images_per_second_spread =
      1.96 * std::sqrt(squares / static_cast<double>(steps - warm_up));
}

RunSummary Summariser::summary() const { return summary_; }

}  // namespace lockstep::train
