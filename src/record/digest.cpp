#include "digest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace lockstep::record {

namespace {

constexpr std::uint64_t prime = (std::uint64_t{1} << 61) - 1;
// Two evaluation points below the prime, taken from the digits of pi and e to exclude a hidden
// choice.
constexpr std::array<std::uint64_t, 2> points{0x0243f6a8885a308d, 0x02b7e151628aed2a};

__extension__ using Wide = unsigned __int128;

/// Returns `value`, which must be less than 2^122, modulo 2^61 - 1, computed with 2^61 = 1
/// (mod 2^61 - 1).
constexpr std::uint64_t reduce(Wide value) {
  const std::uint64_t folded =
      (static_cast<std::uint64_t>(value) & prime) + static_cast<std::uint64_t>(value >> 61);
  return folded >= prime ? folded - prime : folded;
}

/// Returns sum * point + word modulo 2^61 - 1.
constexpr std::uint64_t step(std::uint64_t sum, std::uint64_t point, std::uint64_t word) {
  return reduce(static_cast<Wide>(sum) * point + word);
}

/// Number of words that are added at once: their products are independent of each other, so the
/// processor computes them in parallel.
constexpr std::size_t block = 8;

/// Returns the powers of a point, from the one with exponent 0 to the one with exponent `block`.
constexpr std::array<std::uint64_t, block + 1> powers_of(std::uint64_t point) {
  std::array<std::uint64_t, block + 1> powers{1};
  for (std::size_t i = 1; i <= block; ++i) powers[i] = step(powers[i - 1], point, 0);
  return powers;
}
constexpr std::array powers{powers_of(points[0]), powers_of(points[1])};

/// Returns the result of `step` for `block` words, one after the other. The sum of the products of
/// the words is less than 2^96.
std::uint64_t step(std::uint64_t sum, const std::array<std::uint64_t, block + 1>& power,
                   const std::array<std::uint32_t, block>& words) {
  Wide total = 0;
  for (std::size_t i = 0; i < block; ++i) {
    total += static_cast<Wide>(power[block - 1 - i]) * words[i];
  }
  return step(sum, power[block], reduce(total));
}

}  // namespace

void Digest::add_word(std::uint64_t word) {
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] = step(sums_[i], points[i], word);
}

void Digest::add(std::span<const std::byte> bytes) {
  add_word(bytes.size() & 0xffffffffu);
  add_word(bytes.size() >> 32);
  std::size_t at = 0;
  std::array<std::uint32_t, block> words{};
  for (; at + sizeof words <= bytes.size(); at += sizeof words) {
    std::memcpy(words.data(), bytes.data() + at, sizeof words);
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] = step(sums_[i], powers[i], words);
  }
  for (; at < bytes.size(); at += sizeof(std::uint32_t)) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    add_word(word);
  }
}

void Digest::add(std::string_view text) { add(std::as_bytes(std::span(text))); }

void Digest::add(std::int64_t value) { add(std::as_bytes(std::span(&value, 1))); }

void Digest::add(std::span<const float> values) { add(std::as_bytes(values)); }

std::string Digest::hex() const { return fmt::format("{:016x}{:016x}", sums_[0], sums_[1]); }

}  // namespace lockstep::record
