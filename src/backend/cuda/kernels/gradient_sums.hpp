// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Sums of the flat gradients of several backward passes, in float32. Each kernel index processes
// one element, because a range of gradients may begin at any element.

#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

/// Computes sums += gradients. Both are (elements).
/// Memory traffic: reads sums, gradients; writes sums.
template <class W>
struct AddGradientsToSums {
  const W* gradients;
  float* sums;
  std::int64_t elements;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return elements; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    sums[index] += load(gradients, index);
  }
};

/// Computes gradients += sums, rounded once. Both are (elements).
/// Memory traffic: reads sums, gradients; writes gradients.
template <class W>
struct AddSumsToGradients {
  const float* sums;
  W* gradients;
  std::int64_t elements;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return elements; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    store(gradients, index, load(gradients, index) + sums[index]);
  }
};

}  // namespace lockstep::backend::cuda::kernels
