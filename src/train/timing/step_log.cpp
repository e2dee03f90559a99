// SPDX-License-Identifier: BSD-3-Clause
#include "step_log.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::train {

namespace {

/// The datasets of the gathered columns, in the order of `StepLog::Gathered`.
constexpr std::array paths{"/steps/phase_seconds",  "/steps/start_seconds",
                           "/steps/end_seconds",    "/steps/sent_bytes",
                           "/steps/received_bytes", "/buckets/start_seconds",
                           "/buckets/end_seconds",  "/buckets/call_seconds"};

/// Returns the number of values that each gathered column has in a step.
std::array<std::size_t, paths.size()> widths(std::size_t buckets) {
  return {record::phase_count, 1, 1, 1, 1, buckets, buckets, buckets};
}

std::size_t sum_of_widths(std::size_t buckets) {
  const auto all = widths(buckets);
  return std::accumulate(all.begin(), all.end(), std::size_t{0});
}

/// Returns where the record has the values of a column.
std::vector<double>& values_in(record::EpochRecord& epoch, std::size_t column) {
  switch (column) {
    case StepLog::phase_seconds: return epoch.phase_seconds;
    case StepLog::bucket_start_seconds: return epoch.bucket_start_seconds;
    case StepLog::bucket_end_seconds: return epoch.bucket_end_seconds;
    default: return epoch.measurements[paths[column]];
  }
}

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
  return size.steps * sizeof(double) * (StepLog::own_columns + sum_of_widths(size.buckets));
}

std::size_t step_gather_bytes(const StepLogSize& size) {
  // A table is gathered, then copied into the order of the record. HDF5 copies it again, with its
  // checksum, when it is written.
  const std::size_t largest = std::ranges::max(widths(size.buckets));
  constexpr std::size_t of_all_ranks = StepLog::own_columns - 1;  // without the correct images
  return size.steps * sizeof(double) *
         (of_all_ranks + size.ranks * (sum_of_widths(size.buckets) + 2 * largest));
}

StepLog::StepLog(comm::Communicator& communicator, std::size_t steps, std::size_t buckets,
                 comm::Communicator* independent_replicas)
    : communicator_(communicator), independent_replicas_(independent_replicas), buckets_(buckets) {
  for (auto& values : own_) values.resize(steps);
  const auto width = widths(buckets);
  for (std::size_t i = 0; i < width.size(); ++i) gathered_[i].resize(steps * width[i]);
}

std::span<double> StepLog::row(Gathered column) {
  const std::size_t width = widths(buckets_)[column];
  return std::span(gathered_[column]).subspan(steps_ * width, width);
}

void StepLog::add(double learning_rate, const StepResult& result, double end) {
  own_[rate][steps_] = learning_rate;
  own_[loss][steps_] = result.totals.loss_sum;
  own_[correct][steps_] = static_cast<double>(result.totals.correct);
  own_[images][steps_] = static_cast<double>(result.totals.images);
  row(start_seconds)[0] = result.start_seconds;
  row(end_seconds)[0] = end;
  row(sent_bytes)[0] = result.traffic.sent_bytes;
  row(received_bytes)[0] = result.traffic.received_bytes;
  std::ranges::copy(result.seconds, row(phase_seconds).begin());
  for (std::size_t bucket = 0; bucket < buckets_; ++bucket) {
    row(bucket_start_seconds)[bucket] = result.buckets[bucket].start_seconds;
    row(bucket_end_seconds)[bucket] = result.buckets[bucket].end_seconds;
    row(bucket_call_seconds)[bucket] = result.buckets[bucket].call_seconds;
  }
  ++steps_;
}

void StepLog::step_end(const CompletedStep& step, const StepResult& result) {
  add(step.learning_rate, result, core::host_seconds() - origin_);
}

void StepLog::epoch_end(record::EpochRecord& epoch) {
  const std::span<double> losses = first(own_[loss], steps_);
  const std::span<double> corrects = first(own_[correct], steps_);
  const std::span<double> counts = first(own_[images], steps_);
  if (independent_replicas_ != nullptr) {
    for (const std::span<double> values : {losses, corrects, counts})
      independent_replicas_->sum(values);
  }
  const std::span<const double> rates = first(own_[rate], steps_);
  epoch.learning_rate.assign(rates.begin(), rates.end());
  epoch.loss.reserve(steps_);
  epoch.images.reserve(steps_);
  for (std::size_t step = 0; step < steps_; ++step) {
    epoch.loss.push_back(losses[step] / counts[step]);
    epoch.images.push_back(static_cast<std::int64_t>(counts[step]));
  }
  const auto width = widths(buckets_);
  for (std::size_t i = 0; i < width.size(); ++i) {
    if (width[i] == 0) continue;
    const auto own = first(gathered_[i], steps_ * width[i]);
    values_in(epoch, i) = by_step(comm::gather_arrays(communicator_, own), steps_, width[i]);
  }
  epoch.train_loss = total(losses) / total(counts);
  epoch.train_accuracy = total(corrects) / total(counts);
}

}  // namespace lockstep::train
