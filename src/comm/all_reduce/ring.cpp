// SPDX-License-Identifier: BSD-3-Clause
#include "registry.hpp"

namespace lockstep::comm {

namespace {

/// The ring algorithm (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations", 2009) in float32. The chunks of a piece pass round the ring of ranks twice: first
/// every rank adds its values to the chunks that it receives and forwards them (reduce-scatter),
/// then it forwards the sums (all-gather). Chunk k is summed in the order of the ring, beginning
/// with rank k.
Schedule ring_schedule(std::size_t elements, std::size_t rank, std::size_t ranks) {
  using enum ChunkMessage::Kind;
  Schedule schedule{PieceLayout(elements, ranks, sizeof(float)), ranks, {}};
  const std::size_t next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  std::size_t sent = rank;
  for (std::size_t turn = 0; turn < 2 * (ranks - 1); ++turn) {
    const std::size_t received = (sent + ranks - 1) % ranks;
    schedule.steps.push_back({{turn < ranks - 1 ? add : receive, previous, received, received + 1},
                              {send, next, sent, sent + 1}});
    sent = received;
  }
  return schedule;
}

}  // namespace

AllReduceEntry ring_all_reduce() {
  return {.algorithm = AllReduceAlgorithm::ring, .schedule = ring_schedule};
}

}  // namespace lockstep::comm
