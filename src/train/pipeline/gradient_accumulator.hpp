// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/backend/backend.hpp"

namespace lockstep::train {

/// Sums the gradients of the micro-batches of a step in the flat gradients of a state.
class GradientAccumulator {
 public:
  /// `sums`: of the gradients of the state; null if there is one micro-batch.
  GradientAccumulator(std::unique_ptr<backend::GradientSums> sums, std::int64_t micro_batches);

  /// Computes the gradients of a micro-batch by `plan`, whose state is that of the accumulator, and
  /// adds them to those of the previous ones. Micro-batches are counted from 0 in each step.
  /// `listener` is notified during the last micro-batch, as soon as sums are final.
  void backward(backend::Plan& plan, std::int64_t micro_batch, core::GradientListener& listener);

 private:
  std::unique_ptr<backend::GradientSums> sums_;  ///< over the micro-batches before the last one
  std::int64_t micro_batches_;
};

}  // namespace lockstep::train
