// SPDX-License-Identifier: BSD-3-Clause
#include "digest.hpp"

#include <fmt/format.h>

#include <bit>
#include <new>

namespace lockstep::record {

static_assert(std::endian::native == std::endian::little, "numbers are hashed as in memory");

Digest::Digest() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void Digest::add(std::span<const std::byte> bytes) {
  const std::uint64_t size = bytes.size();
  XXH3_128bits_update(state_.get(), &size, sizeof size);
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

std::string Digest::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace lockstep::record
