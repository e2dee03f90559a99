// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "lockstep/data/dataset.hpp"

// Parameters of the golden run, which make_golden.py computes in PyTorch: resnet18-cifar with the
// initial weights of seed 1, on images of the synthetic data set of seed 1, in order and without
// augmentation. The golden file contains the gradients of a pair of images and the losses of 20
// steps. The learning rate is constant and so small that rounding errors are hardly amplified from
// step to step.

namespace lockstep::golden {

inline constexpr std::uint64_t seed = 1;
inline constexpr std::size_t steps = 20;
inline constexpr std::size_t batch = 32;
inline constexpr float learning_rate = 0.0005f;
inline constexpr float momentum = 0.9f;
inline constexpr float weight_decay = 5e-4f;
inline constexpr std::size_t samples_per_tensor = 64;

inline std::unique_ptr<const data::Dataset> images() {
  return data::load({.source = "synthetic:" + std::to_string(steps * batch), .seed = seed}).train;
}

/// Returns the gradients of 64 values in step `step`, from 1 on.
inline std::vector<float> given_gradients(std::int64_t step) {
  std::vector<float> gradients(64);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    gradients[i] = static_cast<float>(std::cos(static_cast<double>(i) * static_cast<double>(step)));
  return gradients;
}

/// Returns the positions of the gradient values that are compared: at most 64, evenly spaced.
inline std::vector<std::size_t> sampled_positions(std::size_t elements) {
  const std::size_t count = std::min(elements, samples_per_tensor);
  std::vector<std::size_t> positions(count);
  for (std::size_t i = 0; i < count; ++i) positions[i] = i * elements / count;
  return positions;
}

}  // namespace lockstep::golden
