// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fmt/format.h>
#include <xxhash.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/handle.hpp"

namespace lockstep::record {

/// A hash of 128 bits (XXH3) of a sequence of parts. It detects accidental damage, such as lost
/// blocks or swapped tensors; it does not protect against deliberate manipulation.
class Digest {
 public:
  Digest() : state_(XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
  }

  /// Adds the number of bytes and the bytes, so ("ab", "c") and ("a", "bc") have different digests.
  void add(std::span<const std::byte> bytes) {
    static_assert(std::endian::native == std::endian::little, "numbers are hashed as in memory");
    const std::uint64_t size = bytes.size();
    XXH3_128bits_update(state_.get(), &size, sizeof size);
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  void add(std::int64_t value) { add(std::as_bytes(std::span(&value, 1))); }
  void add(std::span<const float> values) { add(std::as_bytes(values)); }

  /// Returns the digest as 32 hexadecimal digits.
  std::string hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  struct StateTraits {
    using type = XXH3_state_t*;
    static type null() noexcept { return nullptr; }
    static void close(type state) noexcept { XXH3_freeState(state); }
  };
  core::Handle<StateTraits> state_;
};

}  // namespace lockstep::record
