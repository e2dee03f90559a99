#pragma once

#include <memory>
#include <vector>

#include "bucket_transport.hpp"
#include "lockstep/comm/gradient_reducer.hpp"

namespace lockstep::comm {

/// A reducer with one all-reduce per bucket. The derived class determines in `gradients_ready`
/// which of them start during the backward pass; the others start after it.
class BucketReducer : public GradientReducer {
 public:
  explicit BucketReducer(std::unique_ptr<BucketTransport> transport);

  void begin_step() final;
  std::size_t wait_beyond(std::size_t elements) final;
  bool is_recordable() const final { return transport_->is_recordable(); }
  void check() final { transport_->check(); }
  const AllReduceChoice& choice() const final { return transport_->choice(); }
  std::span<const std::size_t> bucket_bytes() const final { return bucket_bytes_; }
  std::span<const BucketTimes> bucket_times() const final;

 protected:
  /// Starts the all-reduces of the buckets that are full if the first `elements` gradients are
  /// final.
  void start_up_to(std::size_t elements);
  BucketTransport& transport() { return *transport_; }

 private:
  std::unique_ptr<BucketTransport> transport_;
  std::vector<std::size_t> bucket_bytes_;
  std::size_t started_ = 0;  ///< number of leading buckets that were started
  std::size_t reduced_ = 0;  ///< number of leading buckets that are reduced
};

/// A gradient reducer in the registry. Each reducer has a file of its own, which defines the
/// function that returns its entry.
struct ReducerEntry {
  ReducerKind kind;
  std::string_view help;  ///< meaning, for --help
  /// Creates the reducer of the buckets of `transport`; null if the reducer does not communicate.
  std::unique_ptr<GradientReducer> (*make)(std::unique_ptr<BucketTransport> transport) = nullptr;
};

/// Creates a reducer that sums nothing over `elements` gradients: for one rank, and for reducers
/// that do not communicate.
std::unique_ptr<GradientReducer> make_empty_reducer(std::size_t elements);

/// Creates a reducer of the buckets of `transport`. `kind` must communicate.
std::unique_ptr<GradientReducer> make_reducer(ReducerKind kind,
                                              std::unique_ptr<BucketTransport> transport);

}  // namespace lockstep::comm
