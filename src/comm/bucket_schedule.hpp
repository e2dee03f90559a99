#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "lockstep/comm/gradient_reducer.hpp"

namespace lockstep::comm {

/// Partition of a flat buffer into buckets, from the front; all but the last have the same length.
/// The class only computes positions; the reducers count the buckets that are started and reduced.
class BucketSchedule {
 public:
  /// Returns a schedule without buckets: nothing is reduced.
  static BucketSchedule without_buckets(std::size_t elements);

  /// `bucket_bytes`: bytes of float32 values per bucket. Throws `Error` (usage) if that is less
  /// than one value.
  BucketSchedule(std::size_t elements, std::size_t bucket_bytes);

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

  /// Returns the length in elements of the reduced prefix if the first `buckets` buckets are
  /// reduced.
  std::size_t summed(std::size_t buckets) const;

  /// Returns the bytes of each bucket if an element has `element_bytes` bytes in communication.
  std::vector<std::size_t> bucket_bytes(std::size_t element_bytes) const;

 private:
  BucketSchedule() = default;

  std::size_t elements_ = 0;
  std::size_t length_ = 0;  ///< elements per bucket
  std::size_t count_ = 0;
};

/// Returns the buckets in which `elements` gradients are reduced; there are none if there is only
/// one rank or `options` request no all-reduce. `check` must throw `Error` if the gradients cannot
/// be communicated. Throws `AgreedError` if `check` throws or if the buckets are too small (usage).
/// Collective: all ranks must call this.
BucketSchedule cut_gradients(Communicator& communicator, std::size_t elements,
                             const ReducerOptions& options, const std::function<void()>& check);

}  // namespace lockstep::comm
