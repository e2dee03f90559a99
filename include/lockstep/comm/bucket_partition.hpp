// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::comm {

/// Partition of the flat gradient buffer into buckets, from the front; all but the last have the
/// same length. The class only computes positions; the reducers count the buckets that are started
/// and reduced. Positions and lengths are in elements.
class BucketPartition {
 public:
  /// Returns a partition without buckets: nothing is reduced.
  static BucketPartition without_buckets(std::size_t elements);

  /// Returns the length of a bucket of `bucket_bytes` bytes of float32 values. Throws `Error`
  /// (usage) if that is less than one value.
  static std::size_t bucket_length(std::size_t bucket_bytes);

  /// `bucket_bytes`: bytes of float32 values per bucket. Throws `Error` (usage) if that is less
  /// than one value.
  BucketPartition(std::size_t elements, std::size_t bucket_bytes);

  std::size_t count() const { return count_; }        ///< number of buckets
  std::size_t elements() const { return elements_; }  ///< length of the buffer

  std::size_t begin(std::size_t bucket) const { return bucket * length_; }
  std::size_t end(std::size_t bucket) const;  ///< index after its last element
  std::size_t length(std::size_t bucket) const { return end(bucket) - begin(bucket); }

  /// Returns the number of leading buckets that are full if the first `filled` elements are final.
  std::size_t full(std::size_t filled) const;

  /// Returns the number of leading buckets that must be reduced so that the reduced prefix exceeds
  /// `elements` elements or is the whole buffer.
  std::size_t needed_beyond(std::size_t elements) const;

  /// Returns the length of the reduced prefix if the first `buckets` buckets are reduced.
  std::size_t prefix(std::size_t buckets) const;

  /// Returns the bytes of each bucket if an element has `element_bytes` bytes in communication.
  std::vector<std::size_t> bucket_bytes(std::size_t element_bytes) const;

 private:
  BucketPartition() = default;

  std::size_t elements_ = 0;
  std::size_t length_ = 0;  ///< elements per bucket
  std::size_t count_ = 0;
};

}  // namespace lockstep::comm
