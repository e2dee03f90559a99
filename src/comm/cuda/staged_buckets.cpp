#include "staged_buckets.hpp"

#include <sched.h>

#include "../elements.hpp"
#include "lockstep/comm/agreement.hpp"

namespace lockstep::comm {

StagedBuckets::StagedBuckets(Communicator& communicator, const core::DeviceQueue& queue,
                             const core::GradientArray& gradients, AllReduceAlgorithm algorithm,
                             const BucketPartition& buckets, const BucketTimestamps& timestamps)
    : BucketTransport(buckets, timestamps),
      gradients_(gradients),
      compute_(static_cast<cudaStream_t>(queue.stream)) {
  together(communicator, [&] {
    pinned_ = core::pinned_buffer(gradients.elements * core::size_of(gradients.type));
    stream_ = core::make_stream(core::StreamPriority::high);
    for (std::size_t b = 0; b < buckets.count(); ++b) {
      final_.push_back(core::make_event());
      copied_.push_back(core::make_event());
    }
  });
  sums_ = communicator.allocate(gradients.elements * sizeof(float));
  all_reduces_.emplace(communicator, sums_.as<float>(), buckets, core::DataType::float32,
                       algorithm);
}

void StagedBuckets::begin_step() {
  all_reduces_->begin_step();
  copying_ = 0;
  reducing_ = 0;
  returned_ = 0;
}

StagedBuckets::Place StagedBuckets::place(std::size_t bucket) const {
  const std::size_t size = core::size_of(gradients_.type);
  const std::size_t begin = buckets().begin(bucket), length = buckets().length(bucket);
  return {gradients_.data + begin * size, pinned_.data() + begin * size, length * size,
          sums_.as<float>().subspan(begin, length)};
}

void StagedBuckets::start(std::size_t bucket) {
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

bool StagedBuckets::is_on_host(std::size_t bucket) const {
  const cudaError_t status = cudaEventQuery(copied_[bucket].get());
  if (status == cudaErrorNotReady) return false;
  core::check_cuda(status, "copying gradients to the host");
  return true;
}

/// Starts the all-reduces of buckets that have arrived on the host, in bucket order, which is the
/// same on every rank, and advances those in progress. Returns the number of leading buckets that
/// are reduced.
std::size_t StagedBuckets::advance() {
  for (; reducing_ < copying_ && is_on_host(reducing_); ++reducing_) {
    const Place at = place(reducing_);
    load_floats(at.host, gradients_.type, at.sums);
    all_reduces_->start();
  }
  return all_reduces_->progress();
}

std::size_t StagedBuckets::wait(std::size_t count) {
  std::size_t reduced = advance();
  while (reduced < count) {
    sched_yield();
    reduced = advance();
  }
  return_up_to(reduced);
  return reduced;
}

/// Enqueues the copies to the device of the first `count` sums.
void StagedBuckets::return_up_to(std::size_t count) {
  for (; returned_ < count; ++returned_) {
    const Place at = place(returned_);
    store_floats(at.sums, gradients_.type, at.host);
    core::check_cuda(
        cudaMemcpyAsync(at.device, at.host, at.bytes, cudaMemcpyHostToDevice, compute_),
        "copying gradients to the device");
    timestamps().end(returned_);
  }
}

}  // namespace lockstep::comm
