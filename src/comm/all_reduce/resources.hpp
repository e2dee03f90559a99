// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "../mpi_check.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/buffer.hpp"

namespace lockstep::comm {

/// Largest number of pieces of one array that are in flight at the same time: enough to keep a link
/// busy while the rank executes a compute kernel.
inline constexpr int most_pieces_in_flight = 16;
/// Two tags per piece in flight.
inline constexpr int tags_per_all_reduce = 2 * most_pieces_in_flight;

/// Communicator and message tags of an all-reduce.
struct MessageRoute {
  MPI_Comm comm;
  std::size_t rank;
  std::size_t ranks;
  std::shared_ptr<const int> first_tag;  ///< from `TagPool`
};

/// Allocates the message tags of one communicator in blocks of `tags_per_all_reduce`, so that
/// all-reduces that exist at the same time never use the same tag. If all ranks take and return
/// blocks in the same order, they get the same tags.
class TagPool {
 public:
  /// `largest_tag`: the value of MPI_TAG_UB.
  explicit TagPool(int largest_tag)
      : capacity_((std::int64_t{largest_tag} + 1) / tags_per_all_reduce) {}

  /// Returns the number of blocks that can be in use at the same time.
  std::int64_t capacity() const { return capacity_; }

  /// Returns the first tag of the lowest free block; null if all blocks are in use. The block is
  /// returned when the last copy of the pointer is destroyed.
  std::shared_ptr<const int> take();

 private:
  std::int64_t capacity_;
  std::shared_ptr<std::set<int>> used_ = std::make_shared<std::set<int>>();  ///< their first tags
};

/// Memory that all ranks of a host can access, with one part per rank. Parts are zeroed and start
/// on a page; the kernel allocates the pages of each part on the NUMA node of the rank that owns
/// it.
///
/// The parts are anonymous files (memfd_create) that the ranks open through /proc. An MPI window
/// (MPI_Win_allocate_shared) is no alternative: Open MPI 4.1 creates its file in /dev/shm, whose
/// size is limited (64 MB in Docker by default), and if it is full, one rank returns an error while
/// the others never return from the call.
class SharedMemory {
 public:
  /// `memory` is null on all ranks if any rank failed. In this case `failure` is the reason on each
  /// rank that failed, and empty on the others.
  struct Allocation {
    std::shared_ptr<SharedMemory> memory;
    std::string failure;
  };

  /// Allocates `bytes` per rank, which must be the same on all ranks. All pages are allocated here,
  /// so that a lack of memory cannot terminate a rank later. Collective over `host`, the ranks of
  /// one host.
  static Allocation allocate(MPI_Comm host, std::size_t bytes);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Returns the part of the rank with the local rank `rank`.
  std::span<std::byte> part(int rank) const { return parts_[static_cast<std::size_t>(rank)]; }

 private:
  SharedMemory() = default;

  std::vector<std::span<std::byte>> parts_;
};

/// Position in shared memory: `offset` in bytes, the same in the part of each rank.
struct SharedPlace {
  std::shared_ptr<const SharedMemory> memory;
  std::size_t offset = 0;
};

/// Bytes of shared memory that an all-reduce needs for its flags. They must be zeroed and start on
/// a cache line.
inline constexpr std::size_t shared_flag_bytes = 64;

/// The shared memory and the message tags from which all-reduces of arrays in host memory are
/// built. The functions marked "Collective." must be called by all ranks in the same order.
class AllReduceResources {
 public:
  /// Creates the resources of `ranks`, which must outlive this object, as this object must outlive
  /// its all-reduces. Collective.
  explicit AllReduceResources(Communicator& ranks);
  AllReduceResources(const AllReduceResources&) = delete;
  AllReduceResources& operator=(const AllReduceResources&) = delete;

  Communicator& ranks() const { return ranks_; }
  bool is_one_host() const { return ranks_.local_size() == ranks_.size(); }
  /// Returns the warnings so far about all-reduces that are slower than they could be; the same on
  /// all ranks.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Returns zeroed memory for an array of this rank that will be all-reduced. The memory is shared
  /// by the ranks of a host if every host has the same number of ranks, at least 2, and they can
  /// share memory; otherwise it is private. Collective.
  core::Buffer allocate(std::size_t bytes);
  /// Returns the position of `values` in the shared memory of this host; null memory if they are in
  /// private memory.
  SharedPlace place_of(std::span<const float> values) const;
  /// Allocates the flags of one shared-memory all-reduce. Throws `AgreedError` (out_of_memory) if
  /// no shared memory is left. Collective.
  SharedPlace take_flags();

  /// Returns a communicator that only all-reduces use, so that their tags cannot match other
  /// messages. There must be several ranks.
  MPI_Comm messages() const { return messages_.get(); }
  /// Allocates the tags of one all-reduce over all ranks, of which there must be several. Throws
  /// `AgreedError` (usage) if the tags of the MPI library are exhausted. Collective.
  MessageRoute route() { return route_in(messages_.get()); }
  /// The same for an all-reduce over the ranks with this local rank, one of each host. Only if
  /// there are several hosts with the same number of ranks, at least 2.
  MessageRoute route_between_hosts() { return route_in(between_.get()); }

 private:
  MessageRoute route_in(MPI_Comm comm);

  Communicator& ranks_;
  MpiComm messages_;
  MpiComm between_;  ///< the ranks with this local rank, one of each host; null if there is only
                     ///< one host, hosts have one rank, or their numbers of ranks differ
  bool can_share_ = false;  ///< an algorithm for shared memory exists; the same on all ranks
  std::vector<std::string> warnings_;
  std::vector<std::weak_ptr<const SharedMemory>> shared_memory_;  ///< allocated by `allocate`
  SharedPlace flags_;                                             ///< flags of the next all-reduce
  std::optional<TagPool> tags_;                                   ///< empty if there is one rank
};

}  // namespace lockstep::comm
