// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>

namespace lockstep::core {

/// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
/// numbers: as easy as 1, 2, 3", SC 2011). The result is a pure function of (counter, key), so it
/// does not depend on the rank or thread that calls the function, on the order of calls, or on
/// restarts.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

/// Purpose of a sequence of random numbers. Each purpose has an independent sequence.
enum class RandomStream : std::uint32_t {
  weights,
  permutation,
  augmentation,
  synthetic,
  test,
  operations
};

/// Returns the Philox key of a sequence.
std::array<std::uint32_t, 2> random_key(std::uint64_t seed, RandomStream stream);

/// Converts 32 random bits to a uniformly distributed number in [0, 1) with 24 random bits.
constexpr float to_uniform(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

/// Random number generator: Philox with the counter (block number, sub_index, index). Its sequence
/// depends only on (seed, stream, index, sub_index), for example (seed, augmentation, epoch,
/// sample).
class Random {
 public:
  Random(std::uint64_t seed, RandomStream stream, std::uint64_t index = 0,
         std::uint32_t sub_index = 0);

  /// Returns a uniformly distributed 32-bit integer.
  std::uint32_t bits();
  /// Returns a uniformly distributed number in [0, 1) with 24 random bits.
  float uniform();
  /// Returns a uniformly distributed integer in [0, bound), without bias. `bound` must be positive.
  std::uint32_t below(std::uint32_t bound);
  /// Returns a number from the standard normal distribution (Box-Muller transform).
  float normal();

 private:
  std::array<std::uint32_t, 2> key_;      ///< seed (2 words), stream
  std::array<std::uint32_t, 4> counter_;  ///< block number, sub_index, index (2 words)
  std::array<std::uint32_t, 4> block_{};  ///< the last block of numbers
  int used_ = 4;                          ///< numbers of `block_` already returned
};

}  // namespace lockstep::core
