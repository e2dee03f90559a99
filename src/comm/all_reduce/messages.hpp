#pragma once

#include <mpi.h>

#include <memory>

namespace lockstep::comm {

/// Largest number of pieces of one array that are in flight at the same time: enough to keep a link
/// busy while the rank executes a compute kernel.
inline constexpr int most_pieces_in_flight = 16;
/// Two tags per piece in flight.
inline constexpr int tags_per_all_reduce = 2 * most_pieces_in_flight;

/// Communicator and message tags of an all-reduce. It alone uses the tags `first_tag` to `first_tag
/// + tags_per_all_reduce - 1`.
struct MessageRoute {
  MPI_Comm comm;
  int rank;
  int ranks;
  int first_tag;
  std::shared_ptr<const void> tags;  ///< keeps the tags allocated (`TagPool`)
};

/// Allocates the message tags of one communicator in blocks, so that all-reduces that exist at the
/// same time never use the same tag. If all ranks take and return blocks in the same order, they
/// get the same tags.
class TagPool {
 public:
  /// `largest_tag`: the value of MPI_TAG_UB. `block`: number of tags per block.
  TagPool(int largest_tag, int block);

  /// Returns the number of blocks that can be in use at the same time.
  int capacity() const;

  /// Returns the first tag of the lowest free block; null if all blocks are in use. The block is
  /// returned when the last copy of the pointer is destroyed.
  std::shared_ptr<const int> take();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::comm
