#include <cuda_runtime_api.h>

#include <memory>

#include "../transports.hpp"
#include "device_sweep.hpp"
#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/cuda.hpp"
#include "staged_buckets.hpp"

namespace lockstep::comm {

namespace {

class StagedStatisticsAllReduce final : public core::StatisticsAllReduce {
 public:
  StagedStatisticsAllReduce(Communicator& communicator, const core::DeviceQueue& queue)
      : communicator_(communicator), stream_(static_cast<cudaStream_t>(queue.stream)) {}

  int replicas() const override { return communicator_.size(); }

  void sum(std::span<float> values) override {
    if (replicas() == 1) return;
    const std::size_t bytes = values.size_bytes();
    // The buffer grows only in the first step, in which every size occurs. The last copy from the
    // old buffer must be complete before it is freed.
    if (staging_.bytes() < bytes) {
      core::check_cuda(cudaStreamSynchronize(stream_), "copying statistics to the device");
      staging_ = core::pinned_buffer(bytes);
    }
    core::check_cuda(
        cudaMemcpyAsync(staging_.data(), values.data(), bytes, cudaMemcpyDeviceToHost, stream_),
        "copying statistics to the host");
    core::check_cuda(cudaStreamSynchronize(stream_), "copying statistics to the host");
    communicator_.sum(staging_.as<float>().first(values.size()));
    core::check_cuda(
        cudaMemcpyAsync(values.data(), staging_.data(), bytes, cudaMemcpyHostToDevice, stream_),
        "copying statistics to the device");
  }

 private:
  Communicator& communicator_;
  cudaStream_t stream_;
  core::Buffer staging_;
};

class StagedTransport final : public GradientTransport {
 public:
  StagedTransport(Communicator& communicator, const core::DeviceQueue& queue)
      : GradientTransport(communicator),
        queue_(queue),
        statistics_all_reduce_(communicator, queue) {}

  core::Buffer allocate(std::size_t bytes) override {
    core::Buffer buffer;
    together(communicator(), [&] { buffer = core::device_buffer(bytes, "gradients"); });
    return buffer;
  }

  core::StatisticsAllReduce& statistics_all_reduce() override { return statistics_all_reduce_; }

  std::vector<SweepRow> sweep(const SweepOptions& options) override {
    const std::size_t most = sweep_sizes(options).back() / sizeof(float);
    const core::Buffer memory = allocate(most * core::size_of(options.communication_type));
    core::HostTimeline timeline;
    return sweep_device(
        communicator(), memory, options,
        {core::name(TransportKind::staged), core::DataType::float32}, [&](std::size_t elements) {
          return sum_of({memory.data(), elements, options.communication_type}, timeline);
        });
  }

  std::string library_version() const override { return communicator().library_version(); }

 private:
  /// Returns the all-reduce of the whole array as one bucket.
  DeviceSum sum_of(const core::GradientArray& array, core::Timeline& timeline) {
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

  std::unique_ptr<BucketTransport> make_bucket_transport(
      const core::GradientArray& gradients, const ReducerOptions& options,
      const BucketPartition& buckets, const BucketTimestamps& timestamps) override {
    return std::make_unique<StagedBuckets>(communicator(), queue_, gradients, options.algorithm,
                                           buckets, timestamps);
  }

  core::DeviceQueue queue_;
  StagedStatisticsAllReduce statistics_all_reduce_;
};

}  // namespace

std::unique_ptr<GradientTransport> make_staged_transport(Communicator& communicator,
                                                         const core::DeviceQueue& queue) {
  return std::make_unique<StagedTransport>(communicator, queue);
}

}  // namespace lockstep::comm
