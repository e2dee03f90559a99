#include "resources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::comm {

namespace {

int largest_tag(MPI_Comm comm) {
  int* value = nullptr;
  int is_set = 0;
  check_mpi(MPI_Comm_get_attr(comm, MPI_TAG_UB, &value, &is_set), "MPI_Comm_get_attr");
  return is_set != 0 ? *value : 32767;  // the minimum that the MPI standard guarantees
}

/// Returns the index of this rank's host among all hosts, in the order of their lowest ranks.
/// `host`: the ranks of this host. Collective over `all`.
int index_of_host(MPI_Comm all, MPI_Comm host) {
  int lowest = rank_in(all);
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, host), "MPI_Allreduce");
  std::vector<int> lowest_ranks(static_cast<std::size_t>(size_of(all)));
  check_mpi(MPI_Allgather(&lowest, 1, MPI_INT, lowest_ranks.data(), 1, MPI_INT, all),
            "MPI_Allgather");
  const std::set<int> hosts(lowest_ranks.begin(), lowest_ranks.end());
  return static_cast<int>(std::distance(hosts.begin(), hosts.find(lowest)));
}

/// Returns whether `value` is the same on all ranks of `comm`. Collective over `comm`.
bool is_equal_on_all(MPI_Comm comm, int value) {
  std::array<int, 2> largest = {value, -value};
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, largest.data(), 2, MPI_INT, MPI_MAX, comm),
            "MPI_Allreduce");
  return largest[0] == -largest[1];
}

/// Returns the first rank whose text is not empty; empty if there is none.
std::optional<int> first_failure(const std::vector<std::string>& failures) {
  const auto found = std::ranges::find_if_not(failures, &std::string::empty);
  if (found == failures.end()) return std::nullopt;
  return static_cast<int>(found - failures.begin());
}

}  // namespace

struct TagPool::State {
  int block = 0;           ///< tags per block
  int capacity = 0;        ///< number of blocks
  int used = 0;            ///< number of leading blocks that have been taken at least once
  std::set<int> returned;  ///< the ones of these that are free again
};

TagPool::TagPool(int largest_tag, int block) : state_(std::make_shared<State>()) {
  state_->block = block;
  state_->capacity = static_cast<int>((std::int64_t{largest_tag} + 1) / block);
}

int TagPool::capacity() const { return state_->capacity; }

std::shared_ptr<const int> TagPool::take() {
  int block = state_->used;
  if (!state_->returned.empty()) {
    block = *state_->returned.begin();
    state_->returned.erase(state_->returned.begin());
  } else if (state_->used < state_->capacity) {
    ++state_->used;
  } else {
    return nullptr;
  }
  return {new int(block * state_->block), [state = state_](const int* first_tag) {
            state->returned.insert(*first_tag / state->block);
            delete first_tag;
          }};
}

AllReduceResources::AllReduceResources(Communicator& owner, MPI_Comm comm)
    : owner_(owner),
      messages_(duplicate(comm, "lockstep-messages")),
      host_(split_by_host(comm)),
      local_rank_(rank_in(host_.get())),
      local_size_(size_of(host_.get())),
      host_index_(index_of_host(comm, host_.get())),
      has_even_hosts_(is_equal_on_all(comm, local_size_)),
      tags_(largest_tag(messages_.get()), tags_per_all_reduce) {
  const bool is_one_host = local_size_ == size_of(comm);
  if (can_share() && !is_one_host) between_ = split(comm, local_rank_, rank_in(comm));
}

core::Buffer AllReduceResources::allocate(std::size_t bytes) {
  if (!can_share()) return core::Buffer(bytes);
  const SharedMemory::Allocation shared = SharedMemory::allocate(host_.get(), bytes);
  if (const auto failed = first_failure(all_gather(owner_, shared.failure))) {
    if (*failed == owner_.rank() && !has_warned_) {
      core::log_warning(fmt::format(
          "{}: ranks of a host cannot share memory ({}); arrays are summed with messages instead, "
          "which can take longer",
          describe_rank(owner_), shared.failure));
    }
    has_warned_ = true;  // the same on all ranks
    return core::Buffer(bytes);
  }
  shared_memory_.push_back(shared.memory);
  return {shared.memory->part(local_rank_), shared.memory};
}

SharedPlace AllReduceResources::place_of(std::span<const float> values) const {
  for (const auto& entry : shared_memory_) {
    const auto memory = entry.lock();
    if (memory == nullptr) continue;
    const std::span<const std::byte> part = memory->part(local_rank_);
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    if (begin < part.data() || begin + values.size_bytes() > part.data() + part.size()) continue;
    return {memory, static_cast<std::size_t>(begin - part.data())};
  }
  return {};
}

SharedPlace AllReduceResources::take_flags() {
  constexpr std::size_t bytes = 1024 * shared_flag_bytes;
  if (flags_.memory == nullptr || flags_.offset == bytes) {
    const SharedMemory::Allocation shared = SharedMemory::allocate(host_.get(), bytes);
    together(owner_, [&] {
      if (shared.failure.empty()) return;
      core::fail(core::ExitStatus::out_of_memory,
                 fmt::format("{}: no shared memory for the flags of an all-reduce ({}); use "
                             "--all-reduce direct",
                             describe_rank(owner_), shared.failure));
    });
    flags_ = {shared.memory, 0};
  }
  const SharedPlace place = flags_;
  flags_.offset += shared_flag_bytes;
  return place;
}

MessageRoute AllReduceResources::route_in(MPI_Comm comm) {
  const std::shared_ptr<const int> tags = tags_.take();
  if (tags == nullptr) {
    fail_together(owner_, core::ExitStatus::usage,
                  fmt::format("this MPI library has tags for {} all-reduces at the same time, and "
                              "each bucket of gradients is one; use larger buckets (--bucket-mib)",
                              tags_.capacity()));
  }
  return {comm, rank_in(comm), size_of(comm), *tags, tags};
}

}  // namespace lockstep::comm
