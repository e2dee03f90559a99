#include "all_reduce_split.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "lockstep/record/phase.hpp"

namespace lockstep::train {

namespace {

std::span<const double> measurement(const record::EpochRecord& epoch, const std::string& path) {
  const auto found = epoch.measurements.find(path);
  return found == epoch.measurements.end() ? std::span<const double>() : found->second;
}

struct Interval {
  double begin, end;
};

/// Returns the length of the union of the parts of `intervals` within `limits`. The intervals must
/// be sorted by their begin.
double union_length(std::span<const Interval> intervals, const Interval& limits) {
  double length = 0, reached = limits.begin;
  for (const Interval& interval : intervals) {
    const double end = std::min(interval.end, limits.end);
    length += std::max(0.0, end - std::max(interval.begin, reached));
    reached = std::max(reached, end);
  }
  return length;
}

/// Returns the bound on the error of the difference of two clocks: the sum of the two largest
/// errors of ranks. `errors`: (rank, reading).
double clock_error(std::span<const double> errors) {
  double largest = 0, second = 0;
  for (std::size_t rank = 0; 2 * rank + 1 < errors.size(); ++rank) {
    const double error = std::max(errors[2 * rank], errors[2 * rank + 1]);
    second = std::max(second, std::min(error, largest));
    largest = std::max(largest, error);
  }
  return largest + second;
}

constexpr Interval unlimited{-std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::infinity()};

/// Share of the time in progress from which all-reduces consist of calls.
constexpr double whole = 1 - 1e-6;

/// The all-reduces of a rank in a step, sorted by their begin.
struct RankBuckets {
  std::vector<Interval> in_progress;
  std::vector<Interval> transfer;  ///< after the last rank has started the bucket
  Interval exposed;                ///< phase `exposed_communication`
  double calls;                    ///< seconds in calls
};

/// Returns a lower bound of the transfer. `last_backward`: time at which the last rank ended its
/// backward pass.
double least_transfer(const RankBuckets& rank, double last_backward) {
  const double busy = union_length(rank.in_progress, unlimited);
  const double exposed = union_length(rank.transfer, rank.exposed);
  const double waiting = std::max(0.0, union_length(rank.in_progress, rank.exposed) - exposed);
  const double certain =
      std::clamp(rank.calls - waiting, 0.0, union_length(rank.transfer, unlimited));
  if (rank.calls >= whole * busy) return certain;
  // While other ranks are in their backward pass, this one may wait for their next call.
  const Interval early{rank.exposed.begin, std::min(rank.exposed.end, last_backward)};
  return std::max(0.0, certain - union_length(rank.transfer, early));
}

/// The steps of an epoch, with the times of all ranks on the clock of rank 0.
class CommonTimes {
 public:
  CommonTimes(const record::EpochRecord& epoch, std::size_t ranks)
      : epoch_(epoch),
        ranks_(ranks),
        starts_(measurement(epoch, "/steps/start_seconds")),
        offsets_(measurement(epoch, "/epochs/clock_offset_seconds")),
        calls_(measurement(epoch, "/buckets/call_seconds")),
        steps_(epoch.loss.size()),
        buckets_(epoch.bucket_start_seconds.size() / std::max<std::size_t>(1, steps_ * ranks)) {}

  bool is_complete() const {
    return buckets_ > 0 && !starts_.empty() && !offsets_.empty() && !calls_.empty();
  }
  std::size_t steps() const { return steps_; }
  std::size_t buckets() const { return buckets_; }

  /// Returns the time at which `bucket` was in progress on `rank`.
  Interval bucket_time(std::size_t step, std::size_t rank, std::size_t bucket) const {
    const double start = step_start(step, rank) - offset(step, rank);
    const std::size_t index = (step * ranks_ + rank) * buckets_ + bucket;
    return {start + epoch_.bucket_start_seconds[index], start + epoch_.bucket_end_seconds[index]};
  }

  /// Returns the phase `exposed_communication`, which follows the phases before it.
  Interval exposed(std::size_t step, std::size_t rank) const {
    const double* const phases =
        epoch_.phase_seconds.data() + (step * ranks_ + rank) * record::phase_count;
    const auto index = static_cast<std::size_t>(record::Phase::exposed_communication);
    const double begin =
        std::accumulate(phases, phases + index, step_start(step, rank) - offset(step, rank));
    return {begin, begin + phases[index]};
  }

  /// Reads the all-reduces of a rank. `last_start`: (bucket), start on the last rank.
  void read(std::size_t step, std::size_t rank, std::span<const double> last_start,
            RankBuckets& buckets) const {
    buckets.in_progress.resize(buckets_);
    buckets.transfer.resize(buckets_);
    buckets.exposed = exposed(step, rank);
    buckets.calls = 0;
    for (std::size_t b = 0; b < buckets_; ++b) {
      const Interval time = bucket_time(step, rank, b);
      buckets.in_progress[b] = time;
      buckets.transfer[b] = {std::min(last_start[b], time.end), time.end};
      buckets.calls += calls_[(step * ranks_ + rank) * buckets_ + b];
    }
    std::ranges::sort(buckets.in_progress, {}, &Interval::begin);
    std::ranges::sort(buckets.transfer, {}, &Interval::begin);
  }

 private:
  double step_start(std::size_t step, std::size_t rank) const {
    return starts_[step * ranks_ + rank];
  }
  double offset(std::size_t step, std::size_t rank) const {
    const double first = step_start(0, rank), last = step_start(steps_ - 1, rank);
    const double share = last > first ? (step_start(step, rank) - first) / (last - first) : 0;
    const double begin = offsets_[2 * rank], end = offsets_[2 * rank + 1];
    return begin + share * (end - begin);
  }

  const record::EpochRecord& epoch_;
  std::size_t ranks_;
  std::span<const double> starts_;   ///< (step, rank)
  std::span<const double> offsets_;  ///< (rank, reading)
  std::span<const double> calls_;    ///< (step, rank, bucket)
  std::size_t steps_, buckets_;
};

}  // namespace

AllReduceSplit split_all_reduce(const record::EpochRecord& epoch, std::size_t ranks,
                                std::size_t first) {
  const CommonTimes times(epoch, ranks);
  if (!times.is_complete()) return {};
  // Each begin of the transfer of a bucket is a time of another rank.
  const double error = static_cast<double>(times.buckets()) *
                       clock_error(measurement(epoch, "/epochs/clock_error_seconds"));
  double in_progress = 0, transfer = 0, least = 0, uncertain = 0;
  std::vector<double> last_start(times.buckets());
  std::vector<RankBuckets> of_ranks(ranks);
  for (std::size_t step = first; step < times.steps(); ++step) {
    std::ranges::fill(last_start, -std::numeric_limits<double>::infinity());
    double last_backward = -std::numeric_limits<double>::infinity();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t b = 0; b < times.buckets(); ++b)
        last_start[b] = std::max(last_start[b], times.bucket_time(step, rank, b).begin);
      last_backward = std::max(last_backward, times.exposed(step, rank).begin);
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      RankBuckets& own = of_ranks[rank];
      times.read(step, rank, last_start, own);
      const double high = union_length(own.transfer, unlimited);
      const double busy = union_length(own.in_progress, unlimited);
      in_progress += busy;
      uncertain += std::min(busy, error);
      transfer += high;
      least += least_transfer(own, last_backward);
    }
  }
  const auto count = static_cast<double>(ranks);
  // Rounding may make the difference negative.
  return {.waiting = std::max(0.0, in_progress - transfer) / count,
          .in_progress = in_progress / count,
          .transfer = {
              .low = std::max(0.0, least - uncertain) / count,
              .high = std::min(transfer + uncertain, std::max(transfer, in_progress)) / count}};
}

}  // namespace lockstep::train
