#include "message_route.hpp"

#include <algorithm>

namespace lockstep::comm {

namespace {

// Chunk lengths are multiples of this number of elements, so that each chunk starts on a cache line
// in both data types.
constexpr std::size_t chunk_multiple = 32;

constexpr std::size_t divide_up(std::size_t value, std::size_t by) { return (value + by - 1) / by; }
constexpr std::size_t round_up(std::size_t value, std::size_t to) {
  return divide_up(value, to) * to;
}

}  // namespace

PieceLayout::PieceLayout(std::size_t elements, std::size_t ranks, std::size_t wire_bytes) {
  if (ranks == 1 || elements == 0) return;
  // Messages must be large enough for their latency to be negligible, and small enough for the
  // first sums to return long before the last contributions have been sent. Between 128 KiB and 512
  // KiB no size was clearly fastest, on a 1 Gbit/s link or in shared memory.
  const std::size_t smallest = (std::size_t{64} << 10) / wire_bytes;
  const std::size_t largest = (std::size_t{256} << 10) / wire_bytes;
  constexpr std::size_t wanted_pieces = 8;
  chunk = round_up(std::clamp(divide_up(elements, ranks * wanted_pieces), smallest, largest),
                   chunk_multiple);
  piece = chunk * ranks;
  pieces = divide_up(elements, piece);
  in_flight = std::min(pieces, most_pieces_in_flight);
}

std::size_t PieceLayout::chunk_of(std::size_t piece_elements, std::size_t ranks) {
  return round_up(divide_up(piece_elements, ranks), chunk_multiple);
}

}  // namespace lockstep::comm
