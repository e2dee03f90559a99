#include "bucket_all_reduces.hpp"

#include "all_reduce/registry.hpp"

namespace lockstep::comm {

BucketAllReduces::BucketAllReduces(Communicator& communicator, std::span<float> values,
                                   const BucketPartition& buckets,
                                   core::DataType communication_type, AllReduceAlgorithm algorithm)
    : choice_(choose_algorithm(communicator, values, communication_type, algorithm)) {
  for (std::size_t b = 0; b < buckets.count(); ++b) {
    const auto view = values.subspan(buckets.begin(b), buckets.length(b));
    buckets_.push_back(
        {communicator.make_all_reduce(view, communication_type, choice_.algorithm), false});
  }
}

void BucketAllReduces::begin_step() {
  started_ = 0;
  reduced_ = 0;
}

void BucketAllReduces::start() {
  Bucket& bucket = buckets_[started_++];
  bucket.is_reduced = false;
  bucket.all_reduce->start();
}

std::size_t BucketAllReduces::progress(BucketTimestamps* timestamps) {
  for (std::size_t b = reduced_; b < started_; ++b) {
    Bucket& bucket = buckets_[b];
    if (bucket.is_reduced || !bucket.all_reduce->progress()) continue;
    bucket.is_reduced = true;
    if (timestamps != nullptr) timestamps->end(b);
  }
  while (reduced_ < started_ && buckets_[reduced_].is_reduced) ++reduced_;
  return reduced_;
}

}  // namespace lockstep::comm
