// SPDX-License-Identifier: BSD-3-Clause
#include "gather_scatter.hpp"

#include <algorithm>

#include "registry.hpp"

namespace lockstep::comm {

namespace {

/// Rank 0 receives the pieces of all ranks, adds them to its own in rank order, and sends the sums
/// back.
Schedule root_schedule(std::size_t elements, std::size_t rank, std::size_t ranks,
                       RootStages stages) {
  using enum ChunkMessage::Kind;
  Schedule schedule{PieceLayout(elements, 2, sizeof(float)), 1, {}};
  // Rank 0 stores the contributions of all other ranks to each piece in flight, so that this number
  // limits its workspace.
  constexpr std::size_t most_gathered_pieces = 4;
  schedule.layout.in_flight = std::min(schedule.layout.in_flight, most_gathered_pieces);
  const auto append = [&](ChunkMessage::Kind of_root, ChunkMessage::Kind of_others) {
    auto& step = schedule.steps.emplace_back();
    if (rank != 0) step.push_back({of_others, 0, 0, 1});
    for (std::size_t peer = 1; rank == 0 && peer < ranks; ++peer)
      step.push_back({of_root, peer, 0, 1});
  };
  if (stages != RootStages::scatter) append(add, send);
  if (stages != RootStages::gather) append(send, receive);
  return schedule;
}

}  // namespace

std::unique_ptr<AllReduce> make_root_all_reduce(const MessageRoute& route, std::span<float> values,
                                                RootStages stages) {
  return make_scheduled_all_reduce(route, values,
                                   root_schedule(values.size(), route.rank, route.ranks, stages));
}

AllReduceEntry gather_scatter_all_reduce() {
  return {.algorithm = AllReduceAlgorithm::gather_scatter,
          .help = "rank 0 sums",
          .is_timed = false,
          .schedule = [](std::size_t elements, std::size_t rank, std::size_t ranks) {
            return root_schedule(elements, rank, ranks, RootStages::gather_and_scatter);
          }};
}

}  // namespace lockstep::comm
