// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// ReLU and addition that are not fused into a batch norm, where each kernel index processes 16
// bytes, and sums of the flat gradients of several backward passes, in float32, where each index
// processes one element, because a range of gradients may begin at any element.

#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

/// Computes y = max(x, 0). x and y are (elements); y may alias x.
/// Memory traffic: reads x; writes y.
template <class T>
struct ReluForward {
  const T* x;
  T* y;
  std::int64_t elements;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return lane_groups<T>(elements); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const std::int64_t first = index * lanes_of<T>;
    float values[lanes_of<T>];
    load_elements(x, first, elements - first, values);
    for (float& value : values) value = activate(value, Activation::relu);
    store_elements(y, first, elements - first, values);
  }
};

/// Computes dx = dy [+ dy2] where y > 0, else 0. dy, dy2 (null: none), y and dx are (elements); dx
/// may alias any of the others.
/// Memory traffic: reads dy, dy2, y; writes dx.
template <class T>
struct ReluBackward {
  const T* dy;
  const T* dy2;
  const T* y;
  T* dx;
  std::int64_t elements;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return lane_groups<T>(elements); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const std::int64_t first = index * lanes_of<T>;
    float gradients[lanes_of<T>], outputs[lanes_of<T>], more[lanes_of<T>] = {};
    load_elements(dy, first, elements - first, gradients);
    load_elements(y, first, elements - first, outputs);
    if (dy2 != nullptr) load_elements(dy2, first, elements - first, more);
    for (int lane = 0; lane < lanes_of<T>; ++lane)
      gradients[lane] = outputs[lane] > 0 ? gradients[lane] + more[lane] : 0.0f;
    store_elements(dx, first, elements - first, gradients);
  }
};

/// Computes sum = a + b. a, b and `sum` are (elements); `sum` may alias a or b (in-place
/// addition).
/// Memory traffic: reads a, b; writes sum.
template <class T>
struct Add {
  const T* a;
  const T* b;
  T* sum;
  std::int64_t elements;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return lane_groups<T>(elements); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const std::int64_t first = index * lanes_of<T>;
    float left[lanes_of<T>], right[lanes_of<T>];
    load_elements(a, first, elements - first, left);
    load_elements(b, first, elements - first, right);
    for (int lane = 0; lane < lanes_of<T>; ++lane) left[lane] += right[lane];
    store_elements(sum, first, elements - first, left);
  }
};

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
