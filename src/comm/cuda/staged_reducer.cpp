#include "staged_reducer.hpp"

#include <cuda_runtime_api.h>
#include <sched.h>

#include <vector>

#include "../all_reduce/registry.hpp"
#include "../device_buckets.hpp"
#include "../elements.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/cuda.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

namespace {

class StagedReducer final : public GradientReducer {
 public:
  StagedReducer(Communicator& communicator, const core::DeviceQueue& queue,
                const core::GradientArray& gradients, const ReducerOptions& options,
                core::Timeline& timeline)
      : kind_(options.kind),
        gradients_(gradients),
        schedule_(cut_device_gradients(communicator, gradients, options)),
        bytes_(schedule_.bucket_bytes(sizeof(float))),
        times_(schedule_.count()),
        compute_(static_cast<cudaStream_t>(queue.stream)),
        timeline_(timeline),
        timestamps_(timeline.reserve(2 * schedule_.count())) {
    if (schedule_.count() == 0) return;
    together(communicator, [&] {
      pinned_ = core::pinned_buffer(gradients.elements * core::size_of(gradients.type));
      stream_ = core::make_stream(core::StreamPriority::high);
      for (std::size_t b = 0; b < schedule_.count(); ++b) {
        full_.push_back(core::make_event());
        landed_.push_back(core::make_event());
      }
    });
    sums_ = communicator.allocate(gradients.elements * sizeof(float));
    const auto sums = sums_.as<float>();
    choice_ = choose_algorithm(communicator, sums, core::DataType::float32, options.algorithm);
    for (std::size_t b = 0; b < schedule_.count(); ++b) {
      all_reduces_.push_back(
          communicator.make_all_reduce(sums.subspan(schedule_.begin(b), schedule_.length(b)),
                                       core::DataType::float32, choice_.algorithm));
    }
    is_summed_.assign(schedule_.count(), Summed::no);
  }

  void begin_step() override {
    core::check(started_ == returned_,
                "a step begins while gradients of the last are on their way");
    started_ = 0;
    sent_ = 0;
    summed_ = 0;
    returned_ = 0;
    is_summed_.assign(schedule_.count(), Summed::no);
  }

  void gradients_ready(std::size_t elements) override {
    if (kind_ != ReducerKind::overlap) return;
    start_up_to(elements);
    progress();
  }

  std::size_t wait_beyond(std::size_t elements) override {
    start_up_to(schedule_.elements());
    const std::size_t needed = schedule_.needed_beyond(elements);
    progress();
    while (summed_ < needed) {
      sched_yield();
      progress();
    }
    return_up_to(summed_);
    return schedule_.summed(returned_);
  }

  bool is_recordable() const override { return false; }

  const AllReduceChoice& choice() const override { return choice_; }
  std::span<const std::size_t> bucket_bytes() const override { return bytes_; }

  std::span<const BucketTimes> bucket_times() const override {
    for (std::size_t b = 0; b < times_.size(); ++b) {
      times_[b] = {timeline_.seconds(timestamps_[2 * b]),
                   timeline_.seconds(timestamps_[2 * b + 1])};
    }
    return times_;
  }

 private:
  enum class Summed : unsigned char { no, yes };

  /// Memory of one bucket: gradients on the device, their copy in pinned host memory, and their
  /// sums.
  struct Place {
    std::byte* device;
    std::byte* host;
    std::size_t bytes;
    std::span<float> sums;
  };

  Place place(std::size_t bucket) const {
    const std::size_t size = core::size_of(gradients_.type);
    const std::size_t begin = schedule_.begin(bucket), length = schedule_.length(bucket);
    return {gradients_.data + begin * size, pinned_.data() + begin * size, length * size,
            sums_.as<float>().subspan(begin, length)};
  }

  /// Enqueues the copies to the host of the full buckets.
  void start_up_to(std::size_t elements) {
    for (const std::size_t full = schedule_.full(elements); started_ < full; ++started_) {
      const std::size_t b = started_;
      const Place at = place(b);
      core::check_cuda(cudaEventRecord(full_[b].get(), compute_), "a full bucket");
      core::check_cuda(cudaStreamWaitEvent(stream_.get(), full_[b].get()), "a full bucket");
      timeline_.record(timestamps_[2 * b], stream_.get());
      core::check_cuda(
          cudaMemcpyAsync(at.host, at.device, at.bytes, cudaMemcpyDeviceToHost, stream_.get()),
          "copying gradients to the host");
      core::check_cuda(cudaEventRecord(landed_[b].get(), stream_.get()), "a copied bucket");
    }
  }

  /// Starts the all-reduces of buckets that have arrived on the host, in bucket order, which is the
  /// same on every rank, and advances those in progress.
  void progress() {
    while (sent_ < started_ && has_landed(sent_)) {
      const Place at = place(sent_);
      load_floats(at.host, gradients_.type, at.sums);
      all_reduces_[sent_]->start();
      ++sent_;
    }
    for (std::size_t b = summed_; b < sent_; ++b) {
      if (is_summed_[b] == Summed::no && all_reduces_[b]->progress()) is_summed_[b] = Summed::yes;
    }
    while (summed_ < sent_ && is_summed_[summed_] == Summed::yes) ++summed_;
  }

  bool has_landed(std::size_t bucket) const {
    const cudaError_t status = cudaEventQuery(landed_[bucket].get());
    if (status == cudaErrorNotReady) return false;
    core::check_cuda(status, "copying gradients to the host");
    return true;
  }

  /// Enqueues the copies to the device of the first `buckets` sums.
  void return_up_to(std::size_t buckets) {
    for (; returned_ < buckets; ++returned_) {
      const Place at = place(returned_);
      store_floats(at.sums, gradients_.type, at.host);
      core::check_cuda(
          cudaMemcpyAsync(at.device, at.host, at.bytes, cudaMemcpyHostToDevice, compute_),
          "copying gradients to the device");
      timeline_.record(timestamps_[2 * returned_ + 1]);
    }
  }

  ReducerKind kind_;
  core::GradientArray gradients_;
  BucketSchedule schedule_;
  AllReduceChoice choice_;
  std::vector<std::size_t> bytes_;
  mutable std::vector<BucketTimes> times_;  ///< filled from the timeline by `bucket_times`
  cudaStream_t compute_;
  core::Timeline& timeline_;
  core::TimestampRange timestamps_;
  core::Buffer pinned_;  ///< gradients in the data type of the device
  core::Buffer sums_;    ///< gradients and their sums in float32
  core::Stream stream_;  ///< stream of the copies to the host
  std::vector<core::Event> full_, landed_;
  std::vector<std::unique_ptr<AllReduce>> all_reduces_;
  std::vector<Summed> is_summed_;
  std::size_t started_ = 0;   ///< leading buckets whose copies to the host were enqueued
  std::size_t sent_ = 0;      ///< leading buckets whose all-reduces were started
  std::size_t summed_ = 0;    ///< leading buckets whose all-reduces are complete
  std::size_t returned_ = 0;  ///< leading buckets whose copies to the device were enqueued
};

}  // namespace

std::unique_ptr<GradientReducer> make_staged_reducer(Communicator& communicator,
                                                     const core::DeviceQueue& queue,
                                                     const core::GradientArray& gradients,
                                                     const ReducerOptions& options,
                                                     core::Timeline& timeline) {
  return std::make_unique<StagedReducer>(communicator, queue, gradients, options, timeline);
}

}  // namespace lockstep::comm
