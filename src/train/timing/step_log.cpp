#include "step_log.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "lockstep/comm/messages.hpp"

namespace lockstep::train {

namespace {

std::span<double> first(std::vector<double>& values, std::size_t count) {
  return std::span(values).first(count);
}

/// Transposes (rank, step, item) to (step, rank, item). An empty array stays empty.
std::vector<double> by_step(const std::vector<double>& gathered, std::size_t steps,
                            std::size_t items) {
  if (gathered.empty()) return {};
  const std::size_t ranks = gathered.size() / (steps * items);
  std::vector<double> result(gathered.size());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t step = 0; step < steps; ++step) {
      std::copy_n(gathered.data() + (rank * steps + step) * items, items,
                  result.data() + (step * ranks + rank) * items);
    }
  }
  return result;
}

double total(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

std::size_t step_log_bytes(const StepLogSize& size) {
  return size.steps * sizeof(double) * (8 + record::phase_count + 3 * size.buckets);
}

std::size_t step_gather_bytes(const StepLogSize& size) {
  // A table is gathered, then copied into the order of the record. HDF5 copies it again, with its
  // checksum, when it is written.
  const std::size_t largest = std::max(record::phase_count, size.buckets);
  const std::size_t tables = 4 + record::phase_count + 3 * size.buckets;
  return size.steps * sizeof(double) * (3 + size.ranks * (tables + 2 * largest));
}

StepLog::StepLog(std::size_t steps, std::size_t buckets)
    : buckets_(buckets),
      learning_rate_(steps),
      loss_(steps),
      correct_(steps),
      images_(steps),
      step_starts_(steps),
      step_ends_(steps),
      sent_(steps),
      received_(steps),
      phases_(steps * record::phase_count),
      starts_(steps * buckets),
      ends_(steps * buckets),
      calls_(steps * buckets) {}

void StepLog::add(double learning_rate, const StepResult& result, double end_seconds) {
  learning_rate_[steps_] = learning_rate;
  loss_[steps_] = result.totals.loss_sum;
  correct_[steps_] = static_cast<double>(result.totals.correct);
  images_[steps_] = static_cast<double>(result.totals.images);
  step_starts_[steps_] = result.start_seconds;
  step_ends_[steps_] = end_seconds;
  sent_[steps_] = result.traffic.sent_bytes;
  received_[steps_] = result.traffic.received_bytes;
  std::ranges::copy(result.seconds, phases_.data() + steps_ * record::phase_count);
  for (std::size_t bucket = 0; bucket < result.buckets.size(); ++bucket) {
    starts_[steps_ * buckets_ + bucket] = result.buckets[bucket].start_seconds;
    ends_[steps_ * buckets_ + bucket] = result.buckets[bucket].end_seconds;
    calls_[steps_ * buckets_ + bucket] = result.buckets[bucket].call_seconds;
  }
  ++steps_;
}

std::array<std::span<double>, 3> StepLog::totals() {
  return {first(loss_, steps_), first(correct_, steps_), first(images_, steps_)};
}

record::EpochRecord StepLog::gather(comm::Communicator& communicator) {
  const std::span<const double> loss = first(loss_, steps_);
  const std::span<const double> images = first(images_, steps_);

  record::EpochRecord epoch;
  epoch.learning_rate.assign(learning_rate_.begin(),
                             learning_rate_.begin() + static_cast<std::ptrdiff_t>(steps_));
  epoch.loss.reserve(steps_);
  epoch.images.reserve(steps_);
  for (std::size_t step = 0; step < steps_; ++step) {
    epoch.loss.push_back(loss[step] / images[step]);
    epoch.images.push_back(static_cast<std::int64_t>(images[step]));
  }
  const auto gather_by_step = [&](std::vector<double>& values, std::size_t items) {
    return by_step(comm::gather_arrays(communicator, first(values, steps_ * items)), steps_, items);
  };
  epoch.phase_seconds = gather_by_step(phases_, record::phase_count);
  epoch.measurements["/steps/start_seconds"] = gather_by_step(step_starts_, 1);
  epoch.measurements["/steps/end_seconds"] = gather_by_step(step_ends_, 1);
  epoch.measurements["/steps/sent_bytes"] = gather_by_step(sent_, 1);
  epoch.measurements["/steps/received_bytes"] = gather_by_step(received_, 1);
  if (buckets_ > 0) {
    epoch.bucket_start_seconds = gather_by_step(starts_, buckets_);
    epoch.bucket_end_seconds = gather_by_step(ends_, buckets_);
    epoch.measurements["/buckets/call_seconds"] = gather_by_step(calls_, buckets_);
  }
  epoch.train_loss = total(loss) / total(images);
  epoch.train_accuracy = total(first(correct_, steps_)) / total(images);
  epoch.test_loss = epoch.test_accuracy = std::numeric_limits<double>::quiet_NaN();
  return epoch;
}

}  // namespace lockstep::train
