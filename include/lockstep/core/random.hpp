#pragma once

#include <array>
#include <cstdint>

namespace lockstep::core {

/// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
/// numbers: as easy as 1, 2, 3", SC 2011). A value is a pure function of (key, stream, counter), so
/// results do not depend on who asks, in which order, or after which restart.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

/// What a sequence of random numbers is for. Each purpose has numbers of its own.
enum class RandomStream : std::uint32_t { weights, permutation, augmentation, synthetic, test };

/// A sequence of random numbers, a function of (seed, stream, index, sub_index) alone.
/// For example (seed, augmentation, epoch, sample).
class Random {
 public:
  Random(std::uint64_t seed, RandomStream stream, std::uint64_t index = 0,
         std::uint32_t sub_index = 0);

  std::uint32_t bits();                      ///< uniform over all 32-bit numbers
  float uniform();                           ///< [0, 1), 24 bits
  std::uint32_t below(std::uint32_t bound);  ///< [0, bound), unbiased; bound > 0
  float normal();                            ///< standard normal (Box-Muller)

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;  ///< stream and sub_index, index (2 words), block
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace lockstep::core
