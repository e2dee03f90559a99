#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

namespace lockstep::comm {

/// Pieces of one array that travel at the same time: enough to keep a link busy while the rank is
/// in a kernel.
inline constexpr std::size_t most_pieces_in_flight = 16;
inline constexpr int tags_per_all_reduce = 2 * static_cast<int>(most_pieces_in_flight);

/// Where an all-reduce sends its messages, and under which tags: `first_tag` and the
/// `tags_per_all_reduce - 1` after it are its own.
struct MessageRoute {
  MPI_Comm comm;
  int rank;
  int ranks;
  int first_tag;
  std::shared_ptr<const void> tags;  ///< keeps the tags in use (`TagPool`)
};

/// How an array is cut into pieces, and each piece into one chunk per rank. All in elements.
struct PieceLayout {
  std::size_t chunk = 0;  ///< of a full piece
  std::size_t piece = 0;
  std::size_t pieces = 0;
  std::size_t in_flight = 0;  ///< pieces at the same time

  PieceLayout(std::size_t elements, std::size_t ranks, std::size_t wire_bytes);

  /// Of a piece of so many elements; the last ranks' chunks may be shorter or empty.
  static std::size_t chunk_of(std::size_t piece_elements, std::size_t ranks);
};

}  // namespace lockstep::comm
