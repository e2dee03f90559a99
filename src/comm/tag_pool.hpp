#pragma once

#include <memory>

namespace lockstep::comm {

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
