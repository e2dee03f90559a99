#include "gradient_accumulator.hpp"

#include <algorithm>

namespace lockstep::train {

namespace {

struct NoListener final : core::GradientListener {
  void gradients_ready(std::size_t) override {}
};

/// Adds `sums` to the gradients that are final before it notifies the next listener.
class AddingListener final : public core::GradientListener {
 public:
  AddingListener(std::span<float> gradients, std::span<const float> sums,
                 core::GradientListener& next)
      : gradients_(gradients), sums_(sums), next_(next) {}

  void gradients_ready(std::size_t elements) override {
    for (; added_ < elements; ++added_) gradients_[added_] += sums_[added_];
    next_.gradients_ready(elements);
  }

 private:
  std::span<float> gradients_;
  std::span<const float> sums_;
  core::GradientListener& next_;
  std::size_t added_ = 0;
};

}  // namespace

GradientAccumulator::GradientAccumulator(backend::ModelState& state, std::int64_t micro_batches)
    : state_(state),
      micro_batches_(micro_batches),
      sums_(micro_batches > 1 ? state.gradients.as<float>().size() : 0) {}

void GradientAccumulator::backward(backend::Plan& plan, std::int64_t micro_batch,
                                   core::GradientListener& listener) {
  if (micro_batches_ == 1) return plan.backward(listener);
  const std::span<float> gradients = state_.gradients.as<float>();
  if (micro_batch == micro_batches_ - 1) {
    AddingListener adding(gradients, sums_, listener);
    return plan.backward(adding);
  }
  NoListener nobody;
  plan.backward(nobody);
  if (micro_batch == 0) {
    std::ranges::copy(gradients, sums_.begin());
  } else {
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += gradients[i];
  }
}

}  // namespace lockstep::train
