#pragma once

#include <memory>

namespace lockstep::comm {

/// The message tags of one communicator, given out in blocks so that all-reduces that exist at the
/// same time never use the same tag. If all ranks take and return blocks in the same order, they
/// get the same tags.
class TagPool {
 public:
  /// `largest_tag`: the value of MPI_TAG_UB. `block`: tags of one block.
  TagPool(int largest_tag, int block);

  /// Blocks that can be in use at the same time.
  int capacity() const;

  /// The first tag of the lowest block that is free; null if all are in use. The block is free
  /// again when the last copy of the pointer is gone.
  std::shared_ptr<const int> take();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::comm
