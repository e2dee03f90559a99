#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::record {

/// A 122-bit checksum: two polynomials over the prime 2^61 - 1, whose coefficients are the input's
/// 32-bit words, evaluated at two fixed points (the method of Karp and Rabin, 1987). One changed
/// word is always noticed; other accidents (lost blocks, swapped tensors) pass with a chance of
/// about words / 2^61, squared. It is no protection against somebody who wants to deceive.
class Digest {
 public:
  /// Adds bytes and how many they are: ("ab", "c") differs from ("a", "bc").
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  void add(std::int64_t value);
  void add(std::span<const float> values);

  std::string hex() const;  ///< 32 hexadecimal digits

 private:
  void add_word(std::uint64_t word);

  std::array<std::uint64_t, 2> sums_{1, 1};
};

}  // namespace lockstep::record
