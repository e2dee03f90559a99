#include "digest.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

namespace lockstep::data {

namespace {

constexpr std::uint64_t prime1 = 0x9E3779B185EBCA87u;
constexpr std::uint64_t prime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr std::uint64_t prime3 = 0x165667B19E3779F9u;
constexpr std::uint64_t prime4 = 0x85EBCA77C2B2AE63u;
constexpr std::uint64_t prime5 = 0x27D4EB2F165667C5u;

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

template <class Word>
std::uint64_t read(const std::uint8_t* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * prime2, 31) * prime1;
}

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ round(0, lane)) * prime1 + prime4;
}

}  // namespace

std::uint64_t xxh64(std::span<const std::uint8_t> bytes, std::uint64_t seed) {
  const std::uint8_t* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t hash = seed + prime5;
  if (left >= 32) {
    // Four independent lanes allow four multiplications to be executed in parallel.
    std::array<std::uint64_t, 4> lanes{seed + prime1 + prime2, seed + prime2, seed, seed - prime1};
    for (; left >= 32; at += 32, left -= 32) {
      for (std::size_t lane = 0; lane < 4; ++lane) {
        lanes[lane] = round(lanes[lane], read<std::uint64_t>(at + 8 * lane));
      }
    }
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
           std::rotl(lanes[3], 18);
    for (const std::uint64_t lane : lanes) hash = merge(hash, lane);
  }
  hash += bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    hash = std::rotl(hash ^ round(0, read<std::uint64_t>(at)), 27) * prime1 + prime4;
  }
  for (; left >= 4; at += 4, left -= 4) {
    hash = std::rotl(hash ^ (read<std::uint32_t>(at) * prime1), 23) * prime2 + prime3;
  }
  for (; left > 0; ++at, --left) hash = std::rotl(hash ^ (*at * prime5), 11) * prime1;
  hash = (hash ^ (hash >> 33)) * prime2;
  hash = (hash ^ (hash >> 29)) * prime3;
  return hash ^ (hash >> 32);
}

std::string digest(const Dataset& train, const Dataset& test) {
  // The hash of each part is the seed of the next, so the result depends on order and lengths.
  std::uint64_t hash = 0;
  for (const Dataset* set : {&train, &test}) hash = xxh64(set->labels, xxh64(set->images, hash));
  return fmt::format("{:016x}", hash);
}

}  // namespace lockstep::data
