#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/backend/backend.hpp"

namespace lockstep::train {

/// Sums the gradients of the micro-batches of a step in the gradient buffer of a state in host
/// memory.
class GradientAccumulator {
 public:
  /// `state` must outlive the accumulator.
  GradientAccumulator(backend::ModelState& state, std::int64_t micro_batches);

  /// Computes the gradients of a micro-batch by `plan`, whose state is that of the accumulator, and
  /// adds them to those of the previous ones. Micro-batches are counted from 0 in each step.
  /// `listener` is notified during the last micro-batch, as soon as sums are final.
  void backward(backend::Plan& plan, std::int64_t micro_batch, core::GradientListener& listener);

 private:
  backend::ModelState& state_;
  std::int64_t micro_batches_;
  std::vector<float> sums_;  ///< over the micro-batches before the last one; empty if there is one
};

}  // namespace lockstep::train
