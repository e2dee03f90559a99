// SPDX-License-Identifier: BSD-3-Clause
#include "gradient_accumulator.hpp"

#include <utility>

namespace lockstep::train {

namespace {

/// Adds the sums to the gradients that are final before it notifies the next listener.
class AddingListener final : public core::GradientListener {
 public:
  AddingListener(backend::GradientSums& sums, core::GradientListener& next)
      : sums_(sums), next_(next) {}

  void gradients_ready(std::size_t elements) override {
    if (elements > added_) sums_.add_to_gradients(added_, elements - added_);
    added_ = elements;
    next_.gradients_ready(elements);
  }

 private:
  backend::GradientSums& sums_;
  core::GradientListener& next_;
  std::size_t added_ = 0;
};

}  // namespace

GradientAccumulator::GradientAccumulator(std::unique_ptr<backend::GradientSums> sums,
                                         std::int64_t micro_batches)
    : sums_(std::move(sums)), micro_batches_(micro_batches) {}

void GradientAccumulator::backward(backend::Plan& plan, std::int64_t micro_batch,
                                   core::GradientListener& listener) {
  if (micro_batches_ == 1) return plan.backward(listener);
  if (micro_batch == micro_batches_ - 1) {
    AddingListener adding(*sums_, listener);
    return plan.backward(adding);
  }
  core::NoGradientListener no_listener;
  plan.backward(no_listener);
  if (micro_batch == 0) sums_->clear();
  sums_->add_gradients();
}

}  // namespace lockstep::train
