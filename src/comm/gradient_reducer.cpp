// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/gradient_reducer.hpp"

#include "lockstep/core/error.hpp"

namespace lockstep::comm {

BucketPartition BucketPartition::without_buckets(std::size_t elements) {
  BucketPartition partition;
  partition.elements_ = elements;
  return partition;
}

std::size_t BucketPartition::bucket_length(std::size_t bucket_bytes) {
  const std::size_t length = bucket_bytes / sizeof(float);
  if (length == 0) {
    core::fail(core::ExitStatus::usage,
               "a gradient bucket holds less than one value; choose a larger bucket size");
  }
  return length;
}

BucketPartition::BucketPartition(std::size_t elements, std::size_t bucket_bytes)
    : elements_(elements), length_(bucket_length(bucket_bytes)) {
  count_ = elements_ / length_ + (elements_ % length_ == 0 ? 0 : 1);
}

std::size_t BucketPartition::full(std::size_t filled) const {
  if (count_ == 0 || filled >= elements_) return count_;
  return filled / length_;
}

std::vector<std::size_t> BucketPartition::bucket_sizes(std::size_t element_bytes) const {
  std::vector<std::size_t> bytes(count_);
  for (std::size_t b = 0; b < count_; ++b) bytes[b] = length(b) * element_bytes;
  return bytes;
}

}  // namespace lockstep::comm
