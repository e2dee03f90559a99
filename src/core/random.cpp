// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/random.hpp"

#include <cmath>
#include <numbers>

namespace lockstep::core {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t multiplier0 = 0xD2511F53u;
  constexpr std::uint64_t multiplier1 = 0xCD9E8D57u;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = multiplier0 * counter[0];
    const std::uint64_t product1 = multiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9u;  // golden ratio
    key[1] += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return counter;
}

namespace {
std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }
}  // namespace

std::array<std::uint32_t, 2> random_key(std::uint64_t seed, RandomStream stream) {
  return {low(seed), high(seed) ^ (static_cast<std::uint32_t>(stream) << 24)};
}

Random::Random(std::uint64_t seed, RandomStream stream, std::uint64_t index,
               std::uint32_t sub_index)
    : key_(random_key(seed, stream)), counter_{0, sub_index, low(index), high(index)} {}

std::uint32_t Random::bits() {
  if (used_ == 4) {
    block_ = philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

float Random::uniform() { return to_uniform(bits()); }

std::uint32_t Random::below(std::uint32_t bound) {
  // Lemire, "Fast random integer generation in an interval", 2019: multiply, and reject the values
  // that would cause bias.
  const std::uint32_t threshold = (0u - bound) % bound;
  while (true) {
    const std::uint64_t product = std::uint64_t{bits()} * bound;
    if (low(product) >= threshold) return high(product);
  }
}

float Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - static_cast<double>(uniform())));
  return static_cast<float>(radius *
                            std::cos(2.0 * std::numbers::pi * static_cast<double>(uniform())));
}

}  // namespace lockstep::core
