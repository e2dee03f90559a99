// SPDX-License-Identifier: BSD-3-Clause
#include "resources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

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

std::shared_ptr<const int> TagPool::take() {
  if (static_cast<std::int64_t>(used_->size()) == capacity_) return nullptr;
  int first_tag = 0;
  while (used_->contains(first_tag)) first_tag += tags_per_all_reduce;
  used_->insert(first_tag);
  return {new int(first_tag), [used = used_](const int* tag) {
            used->erase(*tag);
            delete tag;
          }};
}

AllReduceResources::AllReduceResources(Communicator& ranks) : ranks_(ranks) {
  if (ranks.mpi_ranks() == nullptr) return;
  const MPI_Comm all = ranks.mpi_ranks()->all;
  messages_ = duplicate(all, "lockstep-messages");
  tags_.emplace(largest_tag(messages_.get()));
  can_share_ = is_equal_on_all(all, ranks.local_size()) && ranks.local_size() > 1;
  if (can_share_ && !is_one_host()) between_ = split(all, ranks.local_rank(), ranks.rank());
}

core::Buffer AllReduceResources::allocate(std::size_t bytes) {
  if (!can_share_) return core::Buffer(bytes);
  const SharedMemory::Allocation shared = SharedMemory::allocate(ranks_.mpi_ranks()->host, bytes);
  if (const auto failed = first_failure(all_gather(ranks_, shared.failure))) {
    if (*failed == ranks_.rank() && warnings_.empty()) {
      core::log_warning(fmt::format(
          "{}: ranks of a host cannot share memory ({}); arrays are summed with messages instead, "
          "which can take longer",
          describe_rank(ranks_), shared.failure));
    }
    warnings_ = {"ranks of a host cannot share memory; arrays are summed with messages instead"};
    return core::Buffer(bytes);
  }
  shared_memory_.push_back(shared.memory);
  return {shared.memory->part(ranks_.local_rank()), shared.memory};
}

SharedPlace AllReduceResources::place_of(std::span<const float> values) const {
  for (const auto& entry : shared_memory_) {
    const auto memory = entry.lock();
    if (memory == nullptr) continue;
    const std::span<const std::byte> part = memory->part(ranks_.local_rank());
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    if (begin < part.data() || begin + values.size_bytes() > part.data() + part.size()) continue;
    return {memory, static_cast<std::size_t>(begin - part.data())};
  }
  return {};
}

SharedPlace AllReduceResources::take_flags() {
  constexpr std::size_t bytes = 1024 * shared_flag_bytes;
  if (flags_.memory == nullptr || flags_.offset == bytes) {
    const SharedMemory::Allocation shared = SharedMemory::allocate(ranks_.mpi_ranks()->host, bytes);
    together(ranks_, [&] {
      if (shared.failure.empty()) return;
      core::fail(core::ExitStatus::out_of_memory,
                 fmt::format("{}: no shared memory for the flags of an all-reduce ({}); use "
                             "--all-reduce direct",
                             describe_rank(ranks_), shared.failure));
    });
    flags_ = {shared.memory, 0};
  }
  const SharedPlace place = flags_;
  flags_.offset += shared_flag_bytes;
  return place;
}

MessageRoute AllReduceResources::route_in(MPI_Comm comm) {
  std::shared_ptr<const int> first_tag = tags_->take();
  if (first_tag == nullptr) {
    fail_together(ranks_, core::ExitStatus::usage,
                  fmt::format("this MPI library has tags for {} all-reduces at the same time, and "
                              "each bucket of gradients is one; use larger buckets (--bucket-mib)",
                              tags_->capacity()));
  }
  return {comm, static_cast<std::size_t>(rank_in(comm)), static_cast<std::size_t>(size_of(comm)),
          std::move(first_tag)};
}

}  // namespace lockstep::comm
