#include <utility>

#include "bucket_reducer.hpp"

namespace lockstep::comm {

namespace {

/// Starts all all-reduces after the backward pass.
class AllReduceReducer final : public BucketReducer {
 public:
  using BucketReducer::BucketReducer;

  void gradients_ready(std::size_t) override {}
};

}  // namespace

ReducerEntry allreduce_reducer() {
  return {
      .kind = ReducerKind::allreduce,
      .help = "after the backward pass",
      .make = [](std::unique_ptr<BucketTransport> transport) -> std::unique_ptr<GradientReducer> {
        return std::make_unique<AllReduceReducer>(std::move(transport));
      }};
}

}  // namespace lockstep::comm
