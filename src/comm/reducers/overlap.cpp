// SPDX-License-Identifier: BSD-3-Clause
#include <utility>

#include "bucket_reducer.hpp"

namespace lockstep::comm {

namespace {

/// Starts the all-reduce of a bucket as soon as all its gradients are final, so that it overlaps
/// with the rest of the backward pass.
class OverlapReducer final : public BucketReducer {
 public:
  using BucketReducer::BucketReducer;

  void gradients_ready(std::size_t elements) override {
    start_up_to(elements);
    transport().progress();
  }
};

}  // namespace

ReducerEntry overlap_reducer() {
  return {
      .kind = ReducerKind::overlap,
      .help = "during the backward pass",
      .make = [](std::unique_ptr<BucketTransport> transport) -> std::unique_ptr<GradientReducer> {
        return std::make_unique<OverlapReducer>(std::move(transport));
      }};
}

}  // namespace lockstep::comm
