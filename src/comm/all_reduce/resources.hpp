#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "../mpi_check.hpp"
#include "../shared_memory.hpp"
#include "lockstep/comm/communicator.hpp"

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

/// Position in shared memory: `offset` in bytes, the same in the part of each rank.
struct SharedPlace {
  std::shared_ptr<const SharedMemory> memory;
  std::size_t offset = 0;
};

/// Bytes of shared memory that an all-reduce needs for its flags. They must be zeroed and start on
/// a cache line.
inline constexpr std::size_t shared_flag_bytes = 64;

/// The hosts of the ranks of a communicator, and the shared memory and message tags from which
/// all-reduces are built. The functions marked "Collective." must be called by all ranks in the
/// same order.
class AllReduceResources {
 public:
  /// Creates the resources of the ranks of `comm`, which are those of `owner`. Both must outlive
  /// this object. Collective.
  AllReduceResources(Communicator& owner, MPI_Comm comm);

  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  int host() const { return host_index_; }
  /// Returns whether a host could not share memory, so that slower all-reduces are used.
  bool lacks_shared_memory() const { return has_warned_; }

  /// See `Communicator::allocate`. Collective.
  core::Buffer allocate(std::size_t bytes);
  /// Returns the position of `values` in the shared memory of this host; null memory if they are in
  /// private memory.
  SharedPlace place_of(std::span<const float> values) const;
  /// Allocates the flags of one shared-memory all-reduce. Throws `AgreedError` (out_of_memory) if
  /// no shared memory is left. Collective.
  SharedPlace take_flags();

  /// Returns a communicator that only all-reduces use, so that their tags cannot match other
  /// messages.
  MPI_Comm messages() const { return messages_.get(); }
  /// Allocates the tags of one all-reduce over all ranks. Throws `AgreedError` (usage) if the tags
  /// of the MPI library are exhausted. Collective.
  MessageRoute route() { return route_in(messages_.get()); }
  /// The same for an all-reduce over the ranks with this local rank, one of each host. Only if
  /// there are several hosts with the same number of ranks, at least 2.
  MessageRoute route_between_hosts() { return route_in(between_.get()); }

 private:
  /// Returns whether an algorithm for shared memory exists for these ranks; the same on all ranks.
  bool can_share() const { return has_even_hosts_ && local_size_ > 1; }
  MessageRoute route_in(MPI_Comm comm);

  Communicator& owner_;
  MpiComm messages_;
  MpiComm host_;     ///< the ranks of this host
  MpiComm between_;  ///< the ranks with this local rank, one of each host; null if there is only
                     ///< one host, hosts have one rank, or their numbers of ranks differ
  int local_rank_ = 0;
  int local_size_ = 1;
  int host_index_ = 0;
  bool has_even_hosts_ = false;  ///< all hosts have the same number of ranks
  bool has_warned_ = false;      ///< a warning that memory cannot be shared was logged
  std::vector<std::weak_ptr<const SharedMemory>> shared_memory_;  ///< allocated by `allocate`
  SharedPlace flags_;                                             ///< flags of the next all-reduce
  TagPool tags_;
};

}  // namespace lockstep::comm
