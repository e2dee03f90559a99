// SPDX-License-Identifier: BSD-3-Clause
#include "staged_transport.hpp"

#include <cuda_runtime_api.h>
#include <sched.h>

#include <memory>
#include <optional>
#include <vector>

#include "../all_reduce/fixed_order_sum.hpp"
#include "../all_reduce/gather_scatter.hpp"
#include "../elements.hpp"
#include "../gpu_checks.hpp"
#include "../reducers/host_reducer.hpp"
#include "device_sweep.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/cuda.hpp"

namespace lockstep::comm {

namespace {

/// Copies buckets to the host on a separate stream, all-reduces them there in float32, and copies
/// the sums back on the compute stream.
class StagedReducer final : public BucketReducer {
 public:
  /// All references must outlive this object. Throws `AgreedError` (usage) if the algorithm
  /// is not available. Collective: all ranks must call this.
  StagedReducer(AllReduceResources& resources, const core::DeviceQueue& queue,
                const core::GradientArray& gradients, const ReducerOptions& options,
                const BucketPartition& partition, const BucketTimestamps& times)
      : BucketReducer(partition, times, options.kind),
        gradients_(gradients),
        compute_(static_cast<cudaStream_t>(queue.stream)) {
    together(resources.ranks(), [&] {
      pinned_ = core::pinned_buffer(gradients.elements * core::size_of(gradients.type));
      stream_ = core::make_stream(core::StreamPriority::high);
      for (std::size_t b = 0; b < partition.count(); ++b) {
        final_.push_back(core::make_event());
        copied_.push_back(core::make_event());
      }
    });
    sums_ = resources.allocate(gradients.elements * sizeof(float));
    ReducerOptions on_host = options;
    on_host.gradient_type = core::DataType::float32;
    host_.emplace(resources, sums_.as<float>(), on_host, partition, BucketTimestamps());
  }

  bool is_recordable() const override { return false; }
  const AllReduceChoice& choice() const override { return host_->choice(); }
  std::span<const std::size_t> bucket_sizes() const override { return host_->bucket_sizes(); }
  std::span<float> state() override { return host_->state(); }
  Traffic traffic() const override { return host_->traffic(); }

 private:
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
    const std::size_t begin = buckets().begin(bucket), length = buckets().length(bucket);
    return {gradients_.data + begin * size, pinned_.data() + begin * size, length * size,
            sums_.as<float>().subspan(begin, length)};
  }

  void reset() override {
    host_->reset();
    copying_ = 0;
    reducing_ = 0;
    returned_ = 0;
  }

  void start(std::size_t bucket) override {
    const Place at = place(bucket);
    core::check_cuda(cudaEventRecord(final_[bucket].get(), compute_), "a full bucket");
    core::check_cuda(cudaStreamWaitEvent(stream_.get(), final_[bucket].get()), "a full bucket");
    timestamps().start(bucket, stream_.get());
    core::check_cuda(
        cudaMemcpyAsync(at.host, at.device, at.bytes, cudaMemcpyDeviceToHost, stream_.get()),
        "copying gradients to the host");
    core::check_cuda(cudaEventRecord(copied_[bucket].get(), stream_.get()), "a copied bucket");
    ++copying_;
  }

  bool is_on_host(std::size_t bucket) const {
    const cudaError_t status = cudaEventQuery(copied_[bucket].get());
    if (status == cudaErrorNotReady) return false;
    core::check_cuda(status, "copying gradients to the host");
    return true;
  }

  void progress() override { advance(); }

  /// Starts the all-reduces of buckets that have arrived on the host, in bucket order, which is the
  /// same on every rank, and advances those in progress. Returns the number of leading buckets that
  /// are reduced.
  std::size_t advance() {
    for (; reducing_ < copying_ && is_on_host(reducing_); ++reducing_) {
      const Place at = place(reducing_);
      load_floats(at.host, gradients_.type, at.sums);
      host_->start(reducing_);
    }
    return host_->advance();
  }

  std::size_t wait(std::size_t count) override {
    std::size_t reduced = advance();
    while (reduced < count) {
      sched_yield();
      reduced = advance();
    }
    return_up_to(reduced);
    return reduced;
  }

  /// Enqueues the copies to the device of the first `count` sums.
  void return_up_to(std::size_t count) {
    for (; returned_ < count; ++returned_) {
      const Place at = place(returned_);
      store_floats(at.sums, gradients_.type, at.host);
      core::check_cuda(
          cudaMemcpyAsync(at.device, at.host, at.bytes, cudaMemcpyHostToDevice, compute_),
          "copying gradients to the device");
      timestamps().end(returned_);
    }
  }

  core::GradientArray gradients_;
  cudaStream_t compute_;
  core::Buffer pinned_;              ///< gradients in the data type of the device
  core::Buffer sums_;                ///< gradients and their sums in float32
  core::Stream stream_;              ///< stream of the copies to the host
  std::vector<core::Event> final_;   ///< the gradients of a bucket are final
  std::vector<core::Event> copied_;  ///< a bucket is on the host
  std::optional<HostReducer> host_;  ///< sums the buckets in `sums_`
  std::size_t copying_ = 0;          ///< leading buckets whose copies to the host were enqueued
  std::size_t reducing_ = 0;         ///< leading buckets whose all-reduces were started
  std::size_t returned_ = 0;         ///< leading buckets whose copies to the device were enqueued
};

/// Copies the values to the host on rank 0, broadcasts them there, and copies them to the devices
/// of the other ranks.
class StagedBroadcast final : public ParameterBroadcast {
 public:
  StagedBroadcast(AllReduceResources& resources, const core::DeviceQueue& queue,
                  const core::GradientArray& values)
      : is_root_(resources.ranks().rank() == 0),
        values_(values),
        stream_(static_cast<cudaStream_t>(queue.stream)) {
    together(resources.ranks(), [&] { host_ = core::pinned_buffer(bytes()); });
    broadcast_ = make_root_all_reduce(resources.route(), host_.as<float>(), RootStages::scatter);
  }

  void run() override {
    if (is_root_) copy(host_.data(), values_.data, cudaMemcpyDeviceToHost);
    broadcast_->start();
    broadcast_->finish();
    if (!is_root_) copy(values_.data, host_.data(), cudaMemcpyHostToDevice);
  }
  Traffic traffic() const override { return broadcast_->traffic(); }

 private:
  std::size_t bytes() const { return values_.elements * sizeof(float); }
  void copy(void* to, const void* from, cudaMemcpyKind kind) {
    core::check_cuda(cudaMemcpyAsync(to, from, bytes(), kind, stream_), "copying parameters");
    core::check_cuda(cudaStreamSynchronize(stream_), "copying parameters");
  }

  bool is_root_;
  core::GradientArray values_;
  cudaStream_t stream_;
  core::Buffer host_;
  std::unique_ptr<AllReduce> broadcast_;
};

class StagedStatisticsAllReduce final : public core::StatisticsAllReduce {
 public:
  StagedStatisticsAllReduce(AllReduceResources& resources, const core::DeviceQueue& queue)
      : communicator_(resources.ranks()),
        sum_(resources),
        stream_(static_cast<cudaStream_t>(queue.stream)) {}

  /// Allocates the memory for the sums, so that it is not full during a step. Collective: all ranks
  /// must call this.
  void prepare() {
    constexpr std::size_t most_values = 16384;  // two sums for each of 8192 channels
    if (replicas() == 1 || staging_.bytes() > 0) return;
    together(communicator_, [&] { staging_ = core::pinned_buffer(most_values * sizeof(float)); });
  }

  int replicas() const override { return communicator_.size(); }

  void sum(std::span<float> values) override {
    if (replicas() == 1) return;
    const std::size_t bytes = values.size_bytes();
    // More channels than expected. The last copy from the old buffer must be complete before it is
    // freed.
    if (staging_.bytes() < bytes) {
      core::check_cuda(cudaStreamSynchronize(stream_), "copying statistics to the device");
      staging_ = core::pinned_buffer(bytes);
    }
    core::check_cuda(
        cudaMemcpyAsync(staging_.data(), values.data(), bytes, cudaMemcpyDeviceToHost, stream_),
        "copying statistics to the host");
    core::check_cuda(cudaStreamSynchronize(stream_), "copying statistics to the host");
    sum_.run(staging_.as<float>().first(values.size()));
    core::check_cuda(
        cudaMemcpyAsync(values.data(), staging_.data(), bytes, cudaMemcpyHostToDevice, stream_),
        "copying statistics to the device");
  }

 private:
  Communicator& communicator_;
  FixedOrderSum sum_;
  cudaStream_t stream_;
  core::Buffer staging_;
};

class StagedTransport final : public GradientTransport {
 public:
  StagedTransport(Communicator& communicator, const core::DeviceQueue& queue)
      : GradientTransport(communicator),
        queue_(queue),
        resources_(communicator),
        statistics_all_reduce_(resources_, queue) {}

  core::Buffer allocate(std::size_t bytes) override {
    core::Buffer buffer;
    together(communicator(), [&] { buffer = core::device_buffer(bytes, "gradients"); });
    return buffer;
  }

  core::StatisticsAllReduce& statistics_all_reduce() override {
    statistics_all_reduce_.prepare();
    return statistics_all_reduce_;
  }

  std::unique_ptr<ParameterBroadcast> make_broadcast(const core::GradientArray& values) override {
    return std::make_unique<StagedBroadcast>(resources_, queue_, values);
  }

  std::vector<SweepRow> sweep(const SweepOptions& options) override {
    const std::size_t most = sweep_sizes(options).back() / sizeof(float);
    const core::Buffer memory = allocate(most * core::size_of(options.communication_type));
    core::HostTimeline timeline;
    return sweep_device(
        communicator(), memory, options,
        {.algorithm = std::string(core::name(TransportKind::staged))}, [&](std::size_t elements) {
          return sum_of({memory.data(), elements, options.communication_type}, timeline);
        });
  }

  std::string library_version() const override { return communicator().library_version(); }
  std::vector<std::string> warnings() const override { return resources_.warnings(); }

 private:
  /// Returns the all-reduce of the whole array as one bucket.
  SweptSum sum_of(const core::GradientArray& array, core::Timeline& timeline) {
    const ReducerOptions whole{.kind = ReducerKind::allreduce,
                               .bucket_bytes = array.elements * sizeof(float),
                               .gradient_type = array.type};
    const std::shared_ptr<GradientReducer> reducer = make_reducer(array, whole, timeline);
    return [this, reducer] {
      reducer->begin_step();
      reducer->finish();
      core::check_cuda(cudaStreamSynchronize(static_cast<cudaStream_t>(queue_.stream)),
                       "copying sums to the device");
    };
  }

  void check_options(const core::GradientArray& gradients,
                     const ReducerOptions& options) const override {
    check_device_type(gradients, options);
  }

  std::unique_ptr<BucketReducer> make_bucket_reducer(const core::GradientArray& gradients,
                                                     const ReducerOptions& options,
                                                     const BucketPartition& buckets,
                                                     const BucketTimestamps& timestamps) override {
    return std::make_unique<StagedReducer>(resources_, queue_, gradients, options, buckets,
                                           timestamps);
  }

  core::DeviceQueue queue_;
  AllReduceResources resources_;
  StagedStatisticsAllReduce statistics_all_reduce_;
};

}  // namespace

std::unique_ptr<GradientTransport> make_staged_transport(Communicator& communicator,
                                                         const core::DeviceQueue& queue) {
  return std::make_unique<StagedTransport>(communicator, queue);
}

}  // namespace lockstep::comm
