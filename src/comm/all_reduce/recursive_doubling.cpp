// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "doubling_roles.hpp"
#include "registry.hpp"

// Recursive doubling and halving-doubling: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization
// of collective communication operations in MPICH", International Journal of High Performance
// Computing Applications 19 (1), 2005.
namespace lockstep::comm {

namespace {

/// Arrays of up to this size are exchanged as a whole; longer ones are halved.
constexpr std::size_t longest_exchange_bytes = std::size_t{16} << 10;

/// Recursive doubling: in log2 P exchanges of all chunks, each rank adds the sums of a group of
/// ranks that is as large as its own.
void append_doubling(std::size_t index, const DoublingRoles& roles, Schedule& schedule) {
  using enum ChunkMessage::Kind;
  for (std::size_t distance = 1; distance < roles.power; distance *= 2) {
    const std::size_t peer = roles.rank_of(index ^ distance);
    schedule.steps.push_back({{add, peer, 0, roles.power}, {send, peer, 0, roles.power}});
  }
}

/// Halving-doubling (Rabenseifner): a reduce-scatter that halves the chunks of each rank in every
/// exchange, then an all-gather that doubles them.
void append_halving(std::size_t index, const DoublingRoles& roles, Schedule& schedule) {
  using enum ChunkMessage::Kind;
  std::size_t own = 0;  // first chunk that this rank sums
  for (std::size_t distance = roles.power / 2; distance >= 1; distance /= 2) {
    const std::size_t peer = roles.rank_of(index ^ distance);
    own += index & distance;
    const std::size_t other = own ^ distance;
    schedule.steps.push_back(
        {{add, peer, own, own + distance}, {send, peer, other, other + distance}});
  }
  for (std::size_t distance = 1; distance < roles.power; distance *= 2) {
    const std::size_t peer = roles.rank_of(index ^ distance), other = own ^ distance;
    schedule.steps.push_back(
        {{receive, peer, other, other + distance}, {send, peer, own, own + distance}});
    own = std::min(own, other);
  }
}

Schedule doubling_schedule(std::size_t elements, std::size_t rank, std::size_t ranks) {
  using enum ChunkMessage::Kind;
  const DoublingRoles roles(ranks);
  const std::size_t all = roles.power;
  Schedule schedule{PieceLayout(elements, std::min<std::size_t>(ranks, 2), sizeof(float)), all, {}};
  if (roles.is_paired(rank) && rank % 2 == 0) {
    schedule.steps = {{{send, rank + 1, 0, all}}, {{receive, rank + 1, 0, all}}};
    return schedule;
  }
  if (roles.is_paired(rank)) schedule.steps.push_back({{add, rank - 1, 0, all}});
  if (elements * sizeof(float) <= longest_exchange_bytes) {
    append_doubling(roles.index_of(rank), roles, schedule);
  } else {
    append_halving(roles.index_of(rank), roles, schedule);
  }
  if (roles.is_paired(rank)) schedule.steps.push_back({{send, rank - 1, 0, all}});
  return schedule;
}

}  // namespace

AllReduceEntry recursive_doubling_all_reduce() {
  return {.algorithm = AllReduceAlgorithm("recursive-doubling"),
          .help = "halving-doubling for arrays of more than 16 KiB",
          .schedule = doubling_schedule};
}

}  // namespace lockstep::comm
