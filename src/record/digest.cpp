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

/// Returns sum * point + word modulo 2^61 - 1, computed with 2^61 = 1 (mod 2^61 - 1).
std::uint64_t step(std::uint64_t sum, std::uint64_t point, std::uint64_t word) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(sum) * point + word;
  const std::uint64_t folded =
      (static_cast<std::uint64_t>(product) & prime) + static_cast<std::uint64_t>(product >> 61);
  return folded >= prime ? folded - prime : folded;
}

}  // namespace

void Digest::add_word(std::uint64_t word) {
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] = step(sums_[i], points[i], word);
}

void Digest::add(std::span<const std::byte> bytes) {
  add_word(bytes.size() & 0xffffffffu);
  add_word(bytes.size() >> 32);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint32_t)) {
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
