// SPDX-License-Identifier: BSD-3-Clause
#include "digest.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::data {

namespace {

static_assert(std::endian::native == std::endian::little, "labels are hashed as in memory");

constexpr std::int64_t most_byte_classes = 256;

template <class T>
XXH64_hash_t hash(std::span<const T> values, XXH64_hash_t seed) {
  return XXH64(values.data(), values.size_bytes(), seed);
}

}  // namespace

// Checkpoints store this value, so it must not change between versions. The hash of each part is
// the seed of the next, so the result depends on order and lengths.
std::string digest(const Dataset& train, const Dataset& test) {
  XXH64_hash_t value = 0;
  for (const Dataset* set : {&train, &test}) {
    value = hash(set->pixels(), value);
    if (set->info().classes <= most_byte_classes) {
      const std::vector<std::uint8_t> bytes(set->labels().begin(), set->labels().end());
      value = hash(std::span(bytes), value);
    } else {
      value = hash(set->labels(), value);
    }
  }
  return fmt::format("{:016x}", value);
}

}  // namespace lockstep::data
