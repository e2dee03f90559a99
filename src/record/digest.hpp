// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/handle.hpp"

namespace lockstep::record {

/// A hash of 128 bits (XXH3) of a sequence of parts. It detects accidental damage, such as lost
/// blocks or swapped tensors; it does not protect against deliberate manipulation.
class Digest {
 public:
  Digest();

  /// Adds the number of bytes and the bytes, so ("ab", "c") and ("a", "bc") have different digests.
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  void add(std::int64_t value) { add(std::as_bytes(std::span(&value, 1))); }
  void add(std::span<const float> values) { add(std::as_bytes(values)); }

  /// Returns the digest as 32 hexadecimal digits.
  std::string hex() const;

 private:
  struct StateTraits {
    using type = XXH3_state_t*;
    static type null() noexcept { return nullptr; }
    static void close(type state) noexcept { XXH3_freeState(state); }
  };
  core::Handle<StateTraits> state_;
};

}  // namespace lockstep::record
