#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

namespace lockstep::comm {

/// Largest number of pieces of one array that are in flight at the same time: enough to keep a link
/// busy while the rank executes a compute kernel.
inline constexpr std::size_t most_pieces_in_flight = 16;
inline constexpr int tags_per_all_reduce = 2 * static_cast<int>(most_pieces_in_flight);

/// Communicator and message tags of an all-reduce. It alone uses the tags `first_tag` to `first_tag
/// + tags_per_all_reduce - 1`.
struct MessageRoute {
  MPI_Comm comm;
  int rank;
  int ranks;
  int first_tag;
  std::shared_ptr<const void> tags;  ///< keeps the tags allocated (`TagPool`)
};

/// Partition of an array into pieces, and of each piece into one chunk per rank. All lengths are in
/// elements.
struct PieceLayout {
  std::size_t chunk = 0;      ///< length of a chunk of a full piece
  std::size_t piece = 0;      ///< length of a piece
  std::size_t pieces = 0;     ///< number of pieces
  std::size_t in_flight = 0;  ///< number of pieces in flight at the same time

  /// `wire_bytes`: bytes of an element in communication. For one rank or no elements, all members
  /// are 0.
  PieceLayout(std::size_t elements, std::size_t ranks, std::size_t wire_bytes);

  /// Returns the chunk length of a piece of `piece_elements` elements; the chunks of the last ranks
  /// may be shorter or empty.
  static std::size_t chunk_of(std::size_t piece_elements, std::size_t ranks);
};

}  // namespace lockstep::comm
