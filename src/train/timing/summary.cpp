// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/timing/summary.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/core/meter/process_meter.hpp"
#include "lockstep/record/run_records.hpp"

namespace lockstep::train {

namespace {

constexpr auto index_of(record::Phase phase) { return static_cast<std::size_t>(phase); }

/// Returns the number of warm-up steps: ceil(10 %) of `steps`, at least 1, but at most `steps` - 1.
std::size_t warm_up_steps(std::size_t steps) {
  return std::min(std::max<std::size_t>(1, (steps + 9) / 10), steps - 1);
}

/// Sets the values of the rank that lacked a processor for longest; the share is NaN if the system
/// provides no values.
void set_longest_lack(const record::EpochRecord& epoch, std::size_t ranks, RunSummary& summary) {
  const auto value = [&](const char* path, std::size_t rank) {
    const auto found = epoch.measurements.find(path);
    const bool has_value = found != epoch.measurements.end() && rank < found->second.size();
    return has_value ? found->second[rank] : RunSummary::unknown;
  };
  summary.lacking_share = RunSummary::unknown;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    core::ProcessorUsage usage;
    usage.wall_seconds = epoch.seconds;
    usage.run_delay_seconds = value("/epochs/run_delay_seconds", rank);
    usage.steal_seconds = value("/epochs/processor_steal_seconds", rank);
    usage.busy_seconds = value("/epochs/processor_busy_seconds", rank);
    const double share = usage.lacking_share();
    if (!std::isfinite(share) || share <= summary.lacking_share) continue;
    summary.lacking_share = share;
    summary.lacking_rank = static_cast<int>(rank);
  }
}

/// Times of some steps on the clock of the rank that takes longest for all of them, in seconds.
struct StepTimes {
  double total = 0;      ///< each from the start of the step to that of the next
  double data_wait = 0;  ///< part of `total`
};

/// Returns the times of the steps of an epoch without the first `skipped` ones. A step takes the
/// sum of its phases if it is the last one or if the starts of the steps are unknown.
/// docs/analysis.md ("Symbols and formulas") defines it.
StepTimes step_times(const record::EpochRecord& epoch, std::size_t ranks, std::size_t skipped) {
  const auto found = epoch.measurements.find("/steps/start_seconds");
  const std::size_t steps = epoch.loss.size();
  const auto start = [&](std::size_t step, std::size_t rank) {
    const bool is_known =
        found != epoch.measurements.end() && step < steps && found->second.size() == steps * ranks;
    return is_known ? found->second[step * ranks + rank] : RunSummary::unknown;
  };
  StepTimes longest;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    StepTimes times;
    for (std::size_t step = skipped; step < steps; ++step) {
      const double* phases =
          epoch.phase_seconds.data() + (step * ranks + rank) * record::phase_count;
      const double between = start(step + 1, rank) - start(step, rank);
      times.total +=
          between > 0 ? between : std::accumulate(phases, phases + record::phase_count, 0.0);
      times.data_wait += phases[index_of(record::Phase::data_wait)];
    }
    if (rank == 0 || times.total > longest.total) longest = times;
  }
  return longest;
}

/// Returns the mean over the ranks of the exposed communication of these steps, in seconds.
double exposed_seconds(const record::EpochRecord& epoch, std::size_t ranks, std::size_t skipped) {
  double sum = 0;
  for (std::size_t row = skipped * ranks; row < epoch.loss.size() * ranks; ++row) {
    sum += epoch.phase_seconds[row * record::phase_count +
                               index_of(record::Phase::exposed_communication)];
  }
  return sum / static_cast<double>(ranks);
}

}  // namespace

Summariser::Summariser(int ranks, std::int64_t steps_per_epoch, std::int64_t images_per_epoch)
    : ranks_(static_cast<std::size_t>(ranks)) {
  summary_.steps_per_epoch = steps_per_epoch;
  summary_.images_per_epoch = images_per_epoch;
}

void Summariser::add(const record::EpochRecord& epoch) {
  const std::size_t steps = epoch.loss.size();
  summary_.steps += static_cast<std::int64_t>(steps);
  if (steps > 0) {
    summary_.train_loss = epoch.train_loss;
    summary_.train_accuracy = epoch.train_accuracy;
  }
  if (std::isfinite(epoch.test_accuracy)) {
    summary_.last_test_accuracy = epoch.test_accuracy;
    summary_.last_test_loss = epoch.test_loss;
    // The first accuracy is compared with NaN, which std::fmax ignores.
    summary_.best_test_accuracy = std::fmax(summary_.best_test_accuracy, epoch.test_accuracy);
  }
  if (steps == 0 || epoch.phase_seconds.empty()) return;  // only rank 0 has the phases
  ++epochs_;
  const Rule rule = rule_of(epoch);
  const bool is_longer = rule == Rule::longest && rule_ == Rule::longest && steps > length_;
  if (rule <= rule_ && !is_longer) return;
  rule_ = rule;
  length_ = steps;
  time(epoch);
}

Summariser::Rule Summariser::rule_of(const record::EpochRecord& epoch) const {
  if (static_cast<std::int64_t>(epoch.loss.size()) != summary_.steps_per_epoch)
    return Rule::longest;
  return epochs_ == 1 ? Rule::first_complete : Rule::complete;
}

void Summariser::time(const record::EpochRecord& epoch) {
  const std::size_t skipped = rule_ == Rule::complete ? 0 : warm_up_steps(length_);
  const StepTimes times = step_times(epoch, ranks_, skipped);
  const double images = std::accumulate(epoch.images.begin() + static_cast<std::ptrdiff_t>(skipped),
                                        epoch.images.end(), 0.0);
  const double scale = static_cast<double>(summary_.images_per_epoch) / images;
  summary_.timed_epoch = epoch.epoch;
  summary_.timed_steps = static_cast<std::int64_t>(length_ - skipped);
  summary_.skipped_steps = static_cast<std::int64_t>(skipped);
  summary_.epoch_complete = rule_ != Rule::longest;
  summary_.images_per_second = images / times.total;
  summary_.epoch_seconds = scale * times.total;
  summary_.training_seconds = scale * (times.total - times.data_wait);
  set_longest_lack(epoch, ranks_, summary_);
  summary_.exposed_share = exposed_seconds(epoch, ranks_, skipped) / times.total;
}

}  // namespace lockstep::train
