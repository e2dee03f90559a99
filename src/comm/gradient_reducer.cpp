#include "lockstep/comm/gradient_reducer.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "all_reduce_choice.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

namespace {

using Clock = std::chrono::steady_clock;

class BucketReducer final : public GradientReducer {
 public:
  BucketReducer(Communicator& communicator, std::span<float> gradients,
                const ReducerOptions& options)
      : kind_(options.kind), elements_(gradients.size()) {
    const std::size_t bucket = options.bucket_bytes / sizeof(float);
    if (bucket == 0) {
      core::fail(core::ExitStatus::usage,
                 "a gradient bucket holds less than one value; choose a larger bucket size");
    }
    check_wire(options.gradient_type);
    if (kind_ == ReducerKind::none || communicator.size() == 1) return;
    choice_ = choose_way(communicator, gradients, options.gradient_type, options.way);
    for (std::size_t begin = 0; begin < gradients.size(); begin += bucket) {
      const auto view = gradients.subspan(begin, std::min(bucket, gradients.size() - begin));
      buckets_.push_back({begin + view.size(),
                          communicator.make_all_reduce(view, options.gradient_type, choice_.way),
                          false});
      bytes_.push_back(view.size_bytes());
    }
    times_.assign(buckets_.size(), no_times);
  }

  void begin_step() override {
    core::check(oldest_ == started_, "a step begins while gradients of the last are on their way");
    oldest_ = 0;
    started_ = 0;
    std::fill(times_.begin(), times_.end(), no_times);
    begin_ = Clock::now();
  }

  void filled_to(std::size_t elements) override {
    if (kind_ != ReducerKind::overlap) return;
    start_up_to(elements);
    progress();
  }

  std::size_t wait_beyond(std::size_t elements) override {
    start_up_to(elements_);
    // Where ranks share a core, the one that is waited for must be able to run.
    while (!progress() && summed() <= elements) sched_yield();
    return summed();
  }

  const AllReduceChoice& choice() const override { return choice_; }
  std::span<const std::size_t> bucket_bytes() const override { return bytes_; }
  std::span<const BucketTimes> bucket_times() const override { return times_; }

 private:
  static constexpr BucketTimes no_times = {std::numeric_limits<double>::quiet_NaN(),
                                           std::numeric_limits<double>::quiet_NaN()};

  struct Bucket {
    std::size_t end;  ///< element after its last
    std::unique_ptr<AllReduce> all_reduce;
    bool is_complete;
  };

  double since_begin() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }

  /// Elements from the front that hold sums.
  std::size_t summed() const {
    if (oldest_ == buckets_.size()) return elements_;
    return oldest_ == 0 ? 0 : buckets_[oldest_ - 1].end;
  }

  void start_up_to(std::size_t elements) {
    for (; started_ < buckets_.size() && buckets_[started_].end <= elements; ++started_) {
      buckets_[started_].is_complete = false;
      times_[started_].start_seconds = since_begin();
      buckets_[started_].all_reduce->start();
    }
  }

  /// True once every started bucket is complete.
  bool progress() {
    for (std::size_t i = oldest_; i < started_; ++i) {
      Bucket& bucket = buckets_[i];
      if (bucket.is_complete || !bucket.all_reduce->progress()) continue;
      bucket.is_complete = true;
      times_[i].end_seconds = since_begin();
    }
    while (oldest_ < started_ && buckets_[oldest_].is_complete) ++oldest_;
    return oldest_ == started_;
  }

  ReducerKind kind_;
  std::size_t elements_;
  AllReduceChoice choice_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bytes_;
  std::vector<BucketTimes> times_;
  std::size_t started_ = 0;  ///< buckets before this one were started
  std::size_t oldest_ = 0;   ///< buckets before this one are complete
  Clock::time_point begin_ = Clock::now();
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

std::unique_ptr<GradientReducer> make_gradient_reducer(Communicator& communicator,
                                                       std::span<float> gradients,
                                                       const ReducerOptions& options) {
  return std::make_unique<BucketReducer>(communicator, gradients, options);
}

}  // namespace lockstep::comm
