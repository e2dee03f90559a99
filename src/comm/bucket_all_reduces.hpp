#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "reducers/bucket_transport.hpp"

namespace lockstep::comm {

/// The all-reduces of the buckets of an array in host memory.
class BucketAllReduces {
 public:
  /// Selects the algorithm and prepares the all-reduces. `values` must be zero. Throws
  /// `AgreedError` (usage) if `algorithm` is not available. Collective: all ranks must call this.
  BucketAllReduces(Communicator& communicator, std::span<float> values,
                   const BucketPartition& buckets, core::DataType communication_type,
                   AllReduceAlgorithm algorithm);

  void begin_step();
  /// Starts the all-reduce of the next bucket.
  void start();
  /// Advances the all-reduces in progress without blocking; returns the number of leading buckets
  /// that are reduced. `timestamps`: records the end of each all-reduce; may be null.
  std::size_t progress(BucketTimestamps* timestamps = nullptr);

  const AllReduceChoice& choice() const { return choice_; }

 private:
  struct Bucket {
    std::unique_ptr<AllReduce> all_reduce;
    bool is_reduced;
  };

  AllReduceChoice choice_;
  std::vector<Bucket> buckets_;
  std::size_t started_ = 0;  ///< number of leading buckets that were started
  std::size_t reduced_ = 0;  ///< number of leading buckets that are reduced
};

}  // namespace lockstep::comm
