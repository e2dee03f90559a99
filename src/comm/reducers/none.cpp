// SPDX-License-Identifier: BSD-3-Clause
#include "bucket_reducer.hpp"

namespace lockstep::comm {

namespace {

/// Sums nothing: every gradient is reduced as soon as it is final.
class EmptyReducer final : public GradientReducer {
 public:
  explicit EmptyReducer(std::size_t elements) : elements_(elements) {}

  void begin_step() override {}
  void gradients_ready(std::size_t) override {}
  std::size_t wait_beyond(std::size_t) override { return elements_; }
  bool is_recordable() const override { return true; }
  void check() override {}
  const AllReduceChoice& choice() const override { return choice_; }
  std::span<const std::size_t> bucket_bytes() const override { return {}; }
  std::span<const BucketTimes> bucket_times() const override { return {}; }
  Traffic traffic() const override { return {}; }

 private:
  std::size_t elements_;
  AllReduceChoice choice_;
};

}  // namespace

std::unique_ptr<GradientReducer> make_empty_reducer(std::size_t elements) {
  return std::make_unique<EmptyReducer>(elements);
}

ReducerEntry none_reducer() {
  return {.kind = ReducerKind::none, .help = "never: independent replicas", .make = nullptr};
}

}  // namespace lockstep::comm
