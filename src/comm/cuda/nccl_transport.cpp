// SPDX-License-Identifier: BSD-3-Clause
#include "nccl_transport.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "../gpu_checks.hpp"
#include "../reducers/bucket_reducer.hpp"
#include "device_sweep.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/cuda.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/system.hpp"
#include "nccl_communicator.hpp"

namespace lockstep::comm {

namespace {

/// All-reduces buckets with NCCL on a separate stream, concurrently with the compute stream. The
/// host only enqueues work, the same in every step, so that steps can be captured in a CUDA graph.
class NcclReducer final : public BucketReducer {
 public:
  /// All references must outlive this object. Collective: all ranks must call this.
  NcclReducer(Communicator& control, NcclGroup& group, const core::DeviceQueue& queue,
              const core::GradientArray& gradients, const ReducerOptions& options,
              bool registers_memory, const BucketPartition& partition,
              const BucketTimestamps& times)
      : BucketReducer(partition, times, options.kind),
        gradients_(gradients),
        choice_{.algorithm = options.algorithm},
        bucket_sizes_(partition.bucket_sizes(core::size_of(gradients.type))),
        placement_(find_reducer(options.kind).placement),
        compute_(static_cast<cudaStream_t>(queue.stream)) {
    together(control, [&] {
      stream_ = core::make_stream(core::StreamPriority::high);
      for (std::size_t b = 0; b < partition.count(); ++b) {
        final_.push_back(core::make_event());
        reduced_.push_back(core::make_event());
      }
    });
    communicator_ = std::make_unique<NcclCommunicator>(control, group,
                                                       NcclOptions{.name = "lockstep-gradients"});
    if (registers_memory)
      communicator_->register_memory(
          {gradients.data, gradients.elements * core::size_of(gradients.type)});
    together(control, [&] { warm_up(); });
  }

  void throw_if_failed() override { communicator_->throw_if_failed(); }
  const AllReduceChoice& choice() const override { return choice_; }
  std::span<const std::size_t> bucket_sizes() const override { return bucket_sizes_; }
  Traffic traffic() const override { return unknown_traffic(); }

 private:
  void start(std::size_t bucket) override {
    core::check_cuda(cudaEventRecord(final_[bucket].get(), compute_), "a full bucket");
    core::check_cuda(cudaStreamWaitEvent(stream_.get(), final_[bucket].get()), "a full bucket");
    timestamps().start(bucket, stream_.get());
    sum(bucket);
    timestamps().end(bucket, stream_.get());
    core::check_cuda(cudaEventRecord(reduced_[bucket].get(), stream_.get()), "a reduced bucket");
  }

  std::size_t wait(std::size_t count) override {
    // All-reduces run in stream order: waiting for the last one is enough. Waiting for no more than
    // `count` lets the compute stream continue as early as possible.
    core::check_cuda(cudaStreamWaitEvent(compute_, reduced_[count - 1].get()),
                     "waiting for a bucket");
    return count;
  }

  /// All-reduces every bucket once: NCCL establishes connections in the first call of each
  /// algorithm, which cannot be captured in a CUDA graph. The gradients have no meaning yet.
  void warm_up() {
    for (std::size_t b = 0; b < buckets().count(); ++b) sum(b);
    communicator_->finish(stream_.get());
  }

  /// Enqueues the all-reduce of `bucket` on `stream_`, or the operations that replace it.
  void sum(std::size_t bucket) {
    std::byte* const data =
        gradients_.data + buckets().begin(bucket) * core::size_of(gradients_.type);
    const std::size_t length = buckets().length(bucket);
    if (choice_.algorithm != AllReduceAlgorithm::gather_scatter) {
      communicator_->sum(data, length, gradients_.type, stream_.get());
      return;
    }
    communicator_->reduce(data, length, gradients_.type, stream_.get());
    if (placement_ == SumPlacement::all_ranks)
      communicator_->broadcast(data, length, gradients_.type, stream_.get());
  }

  core::GradientArray gradients_;
  AllReduceChoice choice_;
  std::vector<std::size_t> bucket_sizes_;
  SumPlacement placement_;
  cudaStream_t compute_;
  core::Stream stream_;                             ///< stream of the all-reduces
  std::vector<core::Event> final_;                  ///< the gradients of a bucket are final
  std::vector<core::Event> reduced_;                ///< a bucket is reduced
  std::unique_ptr<NcclCommunicator> communicator_;  ///< destroyed before the stream
};

/// Broadcasts on the compute stream. It has a separate communicator, like the statistics.
class NcclBroadcast final : public ParameterBroadcast {
 public:
  NcclBroadcast(Communicator& control, NcclGroup& group, const core::DeviceQueue& queue,
                const core::GradientArray& values)
      : values_(values),
        stream_(static_cast<cudaStream_t>(queue.stream)),
        communicator_(control, group, NcclOptions{.name = "lockstep-parameters"}) {
    together(control, [&] {  // establishes connections, which a capture cannot
      run();
      communicator_.finish(stream_);
    });
  }

  void run() override {
    communicator_.broadcast(values_.data, values_.elements, values_.type, stream_);
  }
  void throw_if_failed() override { communicator_.throw_if_failed(); }
  Traffic traffic() const override { return unknown_traffic(); }

 private:
  core::GradientArray values_;
  cudaStream_t stream_;
  NcclCommunicator communicator_;
};

/// All-reduces batch-norm statistics on the compute stream. It has a separate communicator,
/// because the all-reduces of buckets run at the same time.
class NcclStatisticsAllReduce final : public core::StatisticsAllReduce {
 public:
  NcclStatisticsAllReduce(Communicator& control, NcclGroup& group, const core::DeviceQueue& queue)
      : replicas_(control.size()), stream_(static_cast<cudaStream_t>(queue.stream)) {
    if (replicas_ == 1) return;
    core::Buffer values;
    together(control, [&] {
      values = core::device_buffer(most_warm * sizeof(float), "the first sums of statistics");
    });
    communicator_ = std::make_unique<NcclCommunicator>(control, group,
                                                       NcclOptions{.name = "lockstep-statistics"});
    together(control, [&] {
      for (std::size_t elements = 64; elements <= most_warm; elements *= 8)
        communicator_->sum(values.data(), elements, core::DataType::float32, stream_);
      communicator_->finish(stream_);
    });
  }

  int replicas() const override { return replicas_; }

  void sum(std::span<float> values) override {
    if (communicator_ != nullptr)
      communicator_->sum(values.data(), values.size(), core::DataType::float32, stream_);
  }
  void throw_if_failed() override {
    if (communicator_ != nullptr) communicator_->throw_if_failed();
  }

 private:
  static constexpr std::size_t most_warm = 4096;  ///< values in the largest warm-up sum

  int replicas_;
  cudaStream_t stream_;
  std::unique_ptr<NcclCommunicator> communicator_;
};

class NcclTransport final : public GradientTransport {
 public:
  NcclTransport(Communicator& control, const core::DeviceQueue& queue, bool shares_gpus)
      : GradientTransport(control),
        queue_(queue),
        registers_memory_(control.size() > 1 && !shares_gpus) {
    if (shares_gpus) prepare_shared_gpus(control);
  }

  /// All ranks allocate their memory before NCCL connects them: otherwise a rank without memory
  /// would leave the others waiting in NCCL.
  core::Buffer allocate(std::size_t bytes) override {
    core::Buffer buffer;
    if (registers_memory_ && bytes > 0) {
      together(communicator(), [&] { buffer = registrable_memory(bytes); });
      const auto allocated = all_gather(communicator(), buffer.bytes() == bytes);
      if (std::ranges::count(allocated, false) > 0) {
        buffer = {};
        registers_memory_ = false;
      }
    }
    together(communicator(), [&] {
      if (buffer.bytes() == 0) buffer = core::device_buffer(bytes, "gradients");
    });
    return buffer;
  }

  core::StatisticsAllReduce& statistics_all_reduce() override {
    if (statistics_all_reduce_ == nullptr)
      statistics_all_reduce_ =
          std::make_unique<NcclStatisticsAllReduce>(communicator(), group_, queue_);
    return *statistics_all_reduce_;
  }

  std::unique_ptr<ParameterBroadcast> make_broadcast(const core::GradientArray& values) override {
    return std::make_unique<NcclBroadcast>(communicator(), group_, queue_, values);
  }

  /// Uses one communicator for all sizes, and memory that is registered like that of the gradients.
  std::vector<SweepRow> sweep(const SweepOptions& options) override {
    const std::size_t most = sweep_sizes(options).back() / sizeof(float);
    const core::Buffer memory = allocate(most * core::size_of(options.communication_type));
    NcclCommunicator nccl(communicator(), group_, {.name = "lockstep-sweep"});
    if (registers_memory_) nccl.register_memory({memory.data(), memory.bytes()});
    return sweep_device(communicator(), memory, options,
                        {.algorithm = std::string(core::name(TransportKind::nccl)),
                         .type = options.communication_type},
                        [&](std::size_t elements) -> SweptSum {
                          return [&, elements] {
                            const auto stream = static_cast<cudaStream_t>(queue_.stream);
                            nccl.sum(memory.data(), elements, options.communication_type, stream);
                            nccl.finish(stream);
                          };
                        });
  }

  std::string library_version() const override { return nccl_library_version(); }

 private:
  void check_options(const core::GradientArray& gradients,
                     const ReducerOptions& options) const override {
    check_device_type(gradients, options);
    if (options.algorithm == AllReduceAlgorithm::automatic ||
        options.algorithm == AllReduceAlgorithm::gather_scatter)
      return;
    const bool is_of_reducer = find_reducer(options.kind).algorithm == options.algorithm;
    core::fail(core::ExitStatus::usage,
               is_of_reducer
                   ? fmt::format("--reducer {} sums gradients in host memory, which NCCL does not "
                                 "do; use --transport staged, or another reducer",
                                 options.kind.name())
                   : "--all-reduce selects an algorithm for CPUs only; NCCL selects its own: use "
                     "--all-reduce auto, or gather-scatter for ncclReduce and ncclBroadcast");
  }

  std::unique_ptr<BucketReducer> make_bucket_reducer(const core::GradientArray& gradients,
                                                     const ReducerOptions& options,
                                                     const BucketPartition& buckets,
                                                     const BucketTimestamps& timestamps) override {
    return std::make_unique<NcclReducer>(communicator(), group_, queue_, gradients, options,
                                         registers_memory_, buckets, timestamps);
  }

  core::DeviceQueue queue_;
  NcclGroup group_;
  bool registers_memory_;  ///< with NCCL; it must then be from ncclMemAlloc
  std::unique_ptr<core::StatisticsAllReduce> statistics_all_reduce_;
};

}  // namespace

void prepare_shared_gpus(const Communicator& control) {
  constexpr int keep = 0;
  const std::string host = fmt::format("{}-rank{}", core::host_name(), control.rank());
  ::setenv("NCCL_HOSTID", host.c_str(), keep);
  if (control.local_size() == control.size()) ::setenv("NCCL_SOCKET_IFNAME", "lo", keep);
}

std::unique_ptr<GradientTransport> make_nccl_transport(Communicator& control,
                                                       const core::DeviceQueue& queue,
                                                       bool shares_gpus) {
  return std::make_unique<NcclTransport>(control, queue, shares_gpus);
}

}  // namespace lockstep::comm
