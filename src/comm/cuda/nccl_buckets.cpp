#include "nccl_buckets.hpp"

#include "lockstep/comm/agreement.hpp"

namespace lockstep::comm {

NcclBuckets::NcclBuckets(Communicator& control, NcclCalls& calls, const core::DeviceQueue& queue,
                         const core::GradientArray& gradients, Registration registration,
                         const BucketPartition& buckets, const BucketTimestamps& timestamps)
    : BucketTransport(buckets, timestamps),
      gradients_(gradients),
      compute_(static_cast<cudaStream_t>(queue.stream)) {
  together(control, [&] {
    stream_ = core::make_stream(core::StreamPriority::high);
    for (std::size_t b = 0; b < buckets.count(); ++b) {
      final_.push_back(core::make_event());
      reduced_.push_back(core::make_event());
    }
  });
  communicator_ =
      std::make_unique<NcclCommunicator>(control, calls, NcclOptions{.name = "lockstep-gradients"});
  if (registration == Registration::wanted)
    communicator_->register_memory(
        {gradients.data, gradients.elements * core::size_of(gradients.type)});
  together(control, [&] { warm_up(); });
}

/// All-reduces every bucket once: NCCL establishes connections in the first call of each algorithm,
/// which cannot be captured in a CUDA graph. The gradients are 0, so that the sums do not change
/// them.
void NcclBuckets::warm_up() {
  for (std::size_t b = 0; b < buckets().count(); ++b) sum(b);
  communicator_->finish(stream_.get());
}

void NcclBuckets::sum(std::size_t bucket) {
  std::byte* const data =
      gradients_.data + buckets().begin(bucket) * core::size_of(gradients_.type);
  communicator_->sum(data, buckets().length(bucket), gradients_.type, stream_.get());
}

void NcclBuckets::start(std::size_t bucket) {
  core::check_cuda(cudaEventRecord(final_[bucket].get(), compute_), "a full bucket");
  core::check_cuda(cudaStreamWaitEvent(stream_.get(), final_[bucket].get()), "a full bucket");
  timestamps().start(bucket, stream_.get());
  sum(bucket);
  timestamps().end(bucket, stream_.get());
  core::check_cuda(cudaEventRecord(reduced_[bucket].get(), stream_.get()), "a reduced bucket");
}

std::size_t NcclBuckets::wait(std::size_t count) {
  // All-reduces run in stream order: waiting for the last one is enough. Waiting for no more than
  // `count` lets the compute stream continue as early as possible.
  core::check_cuda(cudaStreamWaitEvent(compute_, reduced_[count - 1].get()),
                   "waiting for a bucket");
  return count;
}

}  // namespace lockstep::comm
