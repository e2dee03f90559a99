#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "lockstep/comm/gradient_reducer.hpp"

namespace lockstep::comm {

/// How a flat buffer is cut into buckets, from the front: all but the last are equally long.
/// Plain arithmetic; what has been started and summed is counted by the reducers.
class BucketSchedule {
 public:
  /// Nothing is summed: no buckets.
  static BucketSchedule without_buckets(std::size_t elements);

  /// `bucket_bytes`: of float32 values. Throws `Error` (usage) where that is less than one value.
  BucketSchedule(std::size_t elements, std::size_t bucket_bytes);

  std::size_t count() const { return count_; }        ///< of buckets
  std::size_t elements() const { return elements_; }  ///< of the buffer

  std::size_t begin(std::size_t bucket) const { return bucket * length_; }
  std::size_t end(std::size_t bucket) const;  ///< element after its last
  std::size_t length(std::size_t bucket) const { return end(bucket) - begin(bucket); }

  /// How many buckets, from the front, are full where the first `filled` elements are.
  std::size_t full(std::size_t filled) const;

  /// How many buckets, from the front, must be summed so that more of the buffer holds sums than
  /// the first `elements`, or all of it does.
  std::size_t needed_beyond(std::size_t elements) const;

  /// How many elements, from the front, hold sums where the first `buckets` buckets do.
  std::size_t summed(std::size_t buckets) const;

  /// Bytes of each bucket if an element takes `element_bytes` in communication.
  std::vector<std::size_t> bucket_bytes(std::size_t element_bytes) const;

 private:
  BucketSchedule() = default;

  std::size_t elements_ = 0;
  std::size_t length_ = 0;  ///< of a bucket, in elements
  std::size_t count_ = 0;
};

/// The buckets in which `elements` gradients are summed; none for one rank alone and if `options`
/// ask for no sums. `check` throws `Error` if the gradients cannot be communicated. Throws
/// `AgreedError` (usage). Collective.
BucketSchedule cut_gradients(Communicator& communicator, std::size_t elements,
                             const ReducerOptions& options, const std::function<void()>& check);

}  // namespace lockstep::comm
