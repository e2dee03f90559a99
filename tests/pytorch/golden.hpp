#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/dataset.hpp"

// What was computed by PyTorch too (make_golden.py): resnet18-cifar from the weights of seed 1 on
// images of the synthetic set of seed 1, in order, no augmentation. Gradients of a pair of images;
// losses of 20 steps at a constant rate, small enough that rounding is not amplified from step to
// step.

namespace lockstep::golden {

inline constexpr std::uint64_t seed = 1;
inline constexpr std::size_t steps = 20;
inline constexpr std::size_t batch = 32;
inline constexpr float learning_rate = 0.0005f;
inline constexpr float momentum = 0.9f;
inline constexpr float weight_decay = 5e-4f;
inline constexpr std::size_t samples_per_tensor = 64;

inline data::Dataset images() {
  return data::load({.source = "synthetic:" + std::to_string(steps * batch), .seed = seed}).train;
}

/// Positions of the gradient values that are compared: up to 64, evenly spread.
inline std::vector<std::size_t> sampled_positions(std::size_t elements) {
  const std::size_t count = std::min(elements, samples_per_tensor);
  std::vector<std::size_t> positions(count);
  for (std::size_t i = 0; i < count; ++i) positions[i] = i * elements / count;
  return positions;
}

}  // namespace lockstep::golden
