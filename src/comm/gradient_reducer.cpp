#include "lockstep/comm/gradient_reducer.hpp"

#include <sched.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "all_reduce/registry.hpp"
#include "bucket_schedule.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

namespace {

class BucketReducer final : public GradientReducer {
 public:
  BucketReducer(Communicator& communicator, std::span<float> gradients,
                const ReducerOptions& options, core::Timeline* timeline)
      : kind_(options.kind),
        schedule_(cut_gradients(communicator, gradients.size(), options,
                                [&] { check_communication_type(options.gradient_type); })),
        timeline_(timeline != nullptr ? *timeline : own_timeline_.emplace()) {
    if (schedule_.count() == 0) return;
    choice_ = choose_algorithm(communicator, gradients, options.gradient_type, options.algorithm);
    for (std::size_t b = 0; b < schedule_.count(); ++b) {
      const auto view = gradients.subspan(schedule_.begin(b), schedule_.length(b));
      buckets_.push_back(
          {communicator.make_all_reduce(view, options.gradient_type, choice_.algorithm), false});
    }
    bytes_ = schedule_.bucket_bytes(
        core::size_of(supported_type(choice_.algorithm, options.gradient_type)));
    times_.resize(buckets_.size());
    timestamps_ = timeline_.reserve(2 * buckets_.size());
  }

  void begin_step() override {
    core::check(oldest_ == started_, "a step begins while gradients of the last are on their way");
    oldest_ = 0;
    started_ = 0;
    if (own_timeline_) timeline_.record(core::Timeline::start);
  }

  void gradients_ready(std::size_t elements) override {
    if (kind_ != ReducerKind::overlap) return;
    start_up_to(elements);
    progress();
  }

  std::size_t wait_beyond(std::size_t elements) override {
    start_up_to(schedule_.elements());
    // If ranks share a core, the rank that this one waits for must be able to run.
    while (!progress() && oldest_ < schedule_.needed_beyond(elements)) sched_yield();
    return schedule_.summed(oldest_);
  }

  const AllReduceChoice& choice() const override { return choice_; }
  std::span<const std::size_t> bucket_bytes() const override { return bytes_; }
  std::span<const BucketTimes> bucket_times() const override {
    for (std::size_t b = 0; b < times_.size(); ++b)
      times_[b] = {timeline_.seconds(start_of(b)), timeline_.seconds(end_of(b))};
    return times_;
  }

 private:
  struct Bucket {
    std::unique_ptr<AllReduce> all_reduce;
    bool is_complete;
  };

  core::Timestamp start_of(std::size_t bucket) const { return timestamps_[2 * bucket]; }
  core::Timestamp end_of(std::size_t bucket) const { return timestamps_[2 * bucket + 1]; }

  void start_up_to(std::size_t elements) {
    for (const std::size_t full = schedule_.full(elements); started_ < full; ++started_) {
      buckets_[started_].is_complete = false;
      timeline_.record(start_of(started_));
      buckets_[started_].all_reduce->start();
    }
  }

  /// Advances the started all-reduces. Returns true once all of them are complete.
  bool progress() {
    for (std::size_t i = oldest_; i < started_; ++i) {
      Bucket& bucket = buckets_[i];
      if (bucket.is_complete || !bucket.all_reduce->progress()) continue;
      bucket.is_complete = true;
      timeline_.record(end_of(i));
    }
    while (oldest_ < started_ && buckets_[oldest_].is_complete) ++oldest_;
    return oldest_ == started_;
  }

  ReducerKind kind_;
  BucketSchedule schedule_;
  std::optional<core::HostTimeline> own_timeline_;  ///< used if the caller gives none
  core::Timeline& timeline_;
  core::TimestampRange timestamps_;
  AllReduceChoice choice_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bytes_;
  mutable std::vector<BucketTimes> times_;  ///< filled from the timeline by `bucket_times`
  std::size_t started_ = 0;                 ///< number of leading buckets that were started
  std::size_t oldest_ = 0;                  ///< number of leading buckets that are complete
};

}  // namespace

std::string_view name(ReducerKind kind) {
  switch (kind) {
    case ReducerKind::overlap: return "overlap";
    case ReducerKind::allreduce: return "allreduce";
    case ReducerKind::none: return "none";
  }
  core::check(false, "unknown kind of reducer");
  return {};
}

std::vector<std::size_t> bucket_lengths(std::size_t elements, std::size_t bucket_bytes) {
  constexpr std::size_t counted_as = 1;
  return BucketSchedule(elements, bucket_bytes).bucket_bytes(counted_as);
}

std::unique_ptr<GradientReducer> make_gradient_reducer(Communicator& communicator,
                                                       std::span<float> gradients,
                                                       const ReducerOptions& options,
                                                       core::Timeline* timeline) {
  return std::make_unique<BucketReducer>(communicator, gradients, options, timeline);
}

}  // namespace lockstep::comm
