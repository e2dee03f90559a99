// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>

#include "host_device.hpp"

namespace lockstep::backend {

/// Returns the hash of one parameter, given its bits and its index in the flat buffer. For equal
/// indices, different bits have different hashes: the function is a bijection of the 64-bit number
/// (index mod 2^32, bits), the finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable
/// pseudorandom number generators", OOPSLA 2014).
LOCKSTEP_HOST_DEVICE inline std::uint64_t element_hash(std::uint64_t index, std::uint32_t bits) {
  std::uint64_t value = (index << 32) + bits + 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

/// Returns the hash of the flat parameters: the sum of the hashes of all elements, modulo 2^64. The
/// sum does not depend on the order of the additions, so a device may add in any order. A change of
/// any bits of a single element always changes the hash; other changes leave it equal with a
/// probability of about 2^-64. Not a cryptographic hash.
std::uint64_t parameter_hash(std::span<const float> parameters);

}  // namespace lockstep::backend
