#include "nccl_reducer.hpp"

#include <cuda_runtime_api.h>

#include <vector>

#include "../bucket_schedule.hpp"
#include "../device_buckets.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/cuda.hpp"
#include "lockstep/core/error.hpp"
#include "nccl_communicator.hpp"

namespace lockstep::comm {

namespace {

class NcclReducer final : public GradientReducer {
 public:
  NcclReducer(Communicator& control, NcclCalls& calls, const core::DeviceQueue& queue,
              const core::GradientArray& gradients, const ReducerOptions& options,
              core::Timeline& timeline, Registration registration)
      : kind_(options.kind),
        gradients_(gradients),
        schedule_(cut_device_gradients(control, gradients, options)),
        bytes_(schedule_.bucket_bytes(core::size_of(gradients.type))),
        times_(schedule_.count()),
        compute_(static_cast<cudaStream_t>(queue.stream)),
        timeline_(timeline),
        timestamps_(timeline.reserve(2 * schedule_.count())) {
    if (options.algorithm != AllReduceAlgorithm::automatic) {
      fail_together(control, core::ExitStatus::usage,
                    "--all-reduce selects an algorithm for CPUs only; NCCL selects its own: use "
                    "--all-reduce auto");
    }
    if (schedule_.count() == 0) return;
    together(control, [&] {
      stream_ = core::make_stream(core::StreamPriority::high);
      for (std::size_t b = 0; b < schedule_.count(); ++b) {
        full_.push_back(core::make_event());
        summed_.push_back(core::make_event());
      }
    });
    communicator_ = std::make_unique<NcclCommunicator>(control, calls,
                                                       NcclOptions{.name = "lockstep-gradients"});
    if (registration == Registration::wanted)
      communicator_->register_memory(
          {gradients.data, gradients.elements * core::size_of(gradients.type)});
    together(control, [&] { warm_up(); });
  }

  void begin_step() override {
    core::check(started_ == joined_, "a step begins while gradients of the last are on their way");
    started_ = 0;
    joined_ = 0;
  }

  void gradients_ready(std::size_t elements) override {
    if (kind_ == ReducerKind::overlap) start_up_to(elements);
  }

  std::size_t wait_beyond(std::size_t elements) override {
    start_up_to(schedule_.elements());
    const std::size_t needed = schedule_.needed_beyond(elements);
    if (needed > joined_) {  // all-reduces run in stream order: waiting for the last one is enough
      core::check_cuda(cudaStreamWaitEvent(compute_, summed_[needed - 1].get()),
                       "waiting for a bucket");
      joined_ = needed;
    }
    return schedule_.summed(joined_);
  }

  void check() override {
    if (communicator_ != nullptr) communicator_->check();
  }

  const AllReduceChoice& choice() const override { return choice_; }
  std::span<const std::size_t> bucket_bytes() const override { return bytes_; }

  std::span<const BucketTimes> bucket_times() const override {
    for (std::size_t b = 0; b < times_.size(); ++b) {
      times_[b] = {timeline_.seconds(start_of(b)), timeline_.seconds(end_of(b))};
    }
    return times_;
  }

 private:
  core::Timestamp start_of(std::size_t bucket) const { return timestamps_[2 * bucket]; }
  core::Timestamp end_of(std::size_t bucket) const { return timestamps_[2 * bucket + 1]; }

  /// Enqueues the all-reduce of `bucket` on `stream_`.
  void sum(std::size_t bucket) {
    std::byte* const data =
        gradients_.data + schedule_.begin(bucket) * core::size_of(gradients_.type);
    communicator_->sum(data, schedule_.length(bucket), gradients_.type, stream_.get());
  }

  /// All-reduces every bucket once: NCCL establishes connections in the first call of each
  /// algorithm, which cannot be captured in a CUDA graph. The gradients are 0, so that the sums do
  /// not change them.
  void warm_up() {
    for (std::size_t b = 0; b < schedule_.count(); ++b) sum(b);
    communicator_->finish(stream_.get());
  }

  void start_up_to(std::size_t elements) {
    for (const std::size_t full = schedule_.full(elements); started_ < full; ++started_) {
      const std::size_t b = started_;
      core::check_cuda(cudaEventRecord(full_[b].get(), compute_), "a full bucket");
      core::check_cuda(cudaStreamWaitEvent(stream_.get(), full_[b].get()), "a full bucket");
      timeline_.record(start_of(b), stream_.get());
      sum(b);
      timeline_.record(end_of(b), stream_.get());
      core::check_cuda(cudaEventRecord(summed_[b].get(), stream_.get()), "a summed bucket");
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
  core::Stream stream_;  ///< stream of the all-reduces
  std::vector<core::Event> full_, summed_;
  std::unique_ptr<NcclCommunicator> communicator_;  ///< destroyed before the stream
  std::size_t started_ = 0;  ///< number of leading buckets that were enqueued
  std::size_t joined_ = 0;   ///< number of leading buckets for which the compute stream waits
};

class NcclStatisticsAllReduce final : public core::StatisticsAllReduce {
 public:
  NcclStatisticsAllReduce(Communicator& control, NcclCalls& calls, const core::DeviceQueue& queue)
      : replicas_(control.size()), stream_(static_cast<cudaStream_t>(queue.stream)) {
    if (replicas_ == 1) return;
    core::Buffer some;
    together(control, [&] {
      some = core::device_buffer(most_warm * sizeof(float), "the first sums of statistics");
    });
    communicator_ = std::make_unique<NcclCommunicator>(control, calls,
                                                       NcclOptions{.name = "lockstep-statistics"});
    together(control, [&] {
      for (std::size_t elements = 64; elements <= most_warm; elements *= 8)
        communicator_->sum(some.data(), elements, core::DataType::float32, stream_);
      communicator_->finish(stream_);
    });
  }

  int replicas() const override { return replicas_; }

  void sum(std::span<float> values) override {
    if (communicator_ != nullptr)
      communicator_->sum(values.data(), values.size(), core::DataType::float32, stream_);
  }

 private:
  static constexpr std::size_t most_warm = 4096;  ///< values in the largest warm-up sum

  int replicas_;
  cudaStream_t stream_;
  std::unique_ptr<NcclCommunicator> communicator_;
};

}  // namespace

std::unique_ptr<GradientReducer> make_nccl_reducer(Communicator& control, NcclCalls& calls,
                                                   const core::DeviceQueue& queue,
                                                   const core::GradientArray& gradients,
                                                   const ReducerOptions& options,
                                                   core::Timeline& timeline,
                                                   Registration registration) {
  return std::make_unique<NcclReducer>(control, calls, queue, gradients, options, timeline,
                                       registration);
}

std::unique_ptr<core::StatisticsAllReduce> make_nccl_statistics_all_reduce(
    Communicator& control, NcclCalls& calls, const core::DeviceQueue& queue) {
  return std::make_unique<NcclStatisticsAllReduce>(control, calls, queue);
}

}  // namespace lockstep::comm
