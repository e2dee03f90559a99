// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "../all_reduce/resources.hpp"
#include "bucket_reducer.hpp"
#include "lockstep/core/buffer.hpp"

namespace lockstep::comm {

/// Sums buckets in host memory.
class HostReducer final : public BucketReducer {
 public:
  /// Selects the algorithm and prepares the all-reduces. `values` must be zero. `options`: the
  /// algorithm, the communication data type, and the reducer, which may define its own sums. Throws
  /// `AgreedError` (usage) if the algorithm is not available. Collective: all ranks must call this.
  HostReducer(AllReduceResources& resources, std::span<float> values, const ReducerOptions& options,
              const BucketPartition& partition, const BucketTimestamps& timestamps);

  void reset() override;
  void start(std::size_t bucket) override;
  void progress() override { advance(); }
  std::size_t wait(std::size_t count) override;
  /// Advances the all-reduces in progress without blocking; returns the number of leading buckets
  /// that are reduced.
  std::size_t advance();

  const AllReduceChoice& choice() const override { return choice_; }
  std::span<const std::size_t> bucket_sizes() const override { return bucket_sizes_; }
  std::span<const BucketTimes> bucket_times() const override {
    return timestamps().read(call_seconds_);
  }
  Traffic traffic() const override;
  std::span<float> state() override { return state_.as<float>(); }

 private:
  struct Bucket {
    std::unique_ptr<AllReduce> all_reduce;
    bool is_reduced;
  };

  /// As `advance()`. `since`: time of the host up to which `call_seconds_` is complete.
  std::size_t advance(double& since);

  AllReduceChoice choice_;
  core::Buffer state_;
  std::vector<std::size_t> bucket_sizes_;
  std::vector<Bucket> all_reduces_;
  std::vector<double> call_seconds_;  ///< (bucket) time of this rank in the functions above
  std::size_t started_ = 0;           ///< number of leading buckets that were started
  std::size_t reduced_ = 0;           ///< number of leading buckets that are reduced
};

}  // namespace lockstep::comm
