#include "all_reduce_split.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace lockstep::train {

namespace {

std::span<const double> measurement(const record::EpochRecord& epoch, const std::string& path) {
  const auto found = epoch.measurements.find(path);
  return found == epoch.measurements.end() ? std::span<const double>() : found->second;
}

struct Interval {
  double begin, end;
};

/// Returns the length of the union of the intervals, which it sorts.
double union_length(std::vector<Interval>& intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin);
  double length = 0, reached = -std::numeric_limits<double>::infinity();
  for (const Interval& interval : intervals) {
    length += std::max(0.0, interval.end - std::max(interval.begin, reached));
    reached = std::max(reached, interval.end);
  }
  return length;
}

/// The steps of an epoch, with the times of all ranks on the clock of rank 0.
class CommonTimes {
 public:
  CommonTimes(const record::EpochRecord& epoch, std::size_t ranks)
      : epoch_(epoch),
        ranks_(ranks),
        starts_(measurement(epoch, "/steps/start_seconds")),
        offsets_(measurement(epoch, "/epochs/clock_offset_seconds")),
        steps_(epoch.loss.size()),
        buckets_(epoch.bucket_start_seconds.size() / std::max<std::size_t>(1, steps_ * ranks)) {}

  bool is_complete() const { return buckets_ > 0 && !starts_.empty() && !offsets_.empty(); }
  std::size_t steps() const { return steps_; }
  std::size_t buckets() const { return buckets_; }

  /// Returns the time at which `bucket` was in progress on `rank`.
  Interval bucket_time(std::size_t step, std::size_t rank, std::size_t bucket) const {
    const double start = step_start(step, rank) - offset(step, rank);
    const std::size_t index = (step * ranks_ + rank) * buckets_ + bucket;
    return {start + epoch_.bucket_start_seconds[index], start + epoch_.bucket_end_seconds[index]};
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
  std::size_t steps_, buckets_;
};

}  // namespace

AllReduceSplit split_all_reduce(const record::EpochRecord& epoch, std::size_t ranks,
                                std::size_t first) {
  const CommonTimes times(epoch, ranks);
  if (!times.is_complete()) return {};
  double in_progress = 0, transfer = 0;
  std::vector<double> last_start(times.buckets());
  std::vector<Interval> whole(times.buckets()), after(times.buckets());
  for (std::size_t step = first; step < times.steps(); ++step) {
    std::ranges::fill(last_start, -std::numeric_limits<double>::infinity());
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t b = 0; b < times.buckets(); ++b)
        last_start[b] = std::max(last_start[b], times.bucket_time(step, rank, b).begin);
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t b = 0; b < times.buckets(); ++b) {
        whole[b] = times.bucket_time(step, rank, b);
        after[b] = {std::min(last_start[b], whole[b].end), whole[b].end};
      }
      in_progress += union_length(whole);
      transfer += union_length(after);
    }
  }
  const auto count = static_cast<double>(ranks);
  // Rounding may make the difference negative.
  return {.waiting = std::max(0.0, in_progress - transfer) / count, .transfer = transfer / count};
}

}  // namespace lockstep::train
