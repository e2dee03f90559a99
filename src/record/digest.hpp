#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::record {

/// A 122-bit checksum: a polynomial modulo the prime 2^61 - 1, whose coefficients are the 32-bit
/// words of the input, evaluated at two fixed points (method of Karp and Rabin, 1987). A
/// change of a single word is always detected. Other accidental errors (lost blocks, swapped
/// tensors) remain undetected with a probability of about (words / 2^61)^2. The checksum does not
/// protect against deliberate manipulation.
class Digest {
 public:
  /// Adds the number of bytes and the bytes, so ("ab", "c") and ("a", "bc") have different digests.
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  void add(std::int64_t value);
  void add(std::span<const float> values);

  /// Returns the digest as 32 hexadecimal digits.
  std::string hex() const;

 private:
  void add_word(std::uint64_t word);

  std::array<std::uint64_t, 2> sums_{1, 1};
};

}  // namespace lockstep::record
