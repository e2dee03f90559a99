// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "../elements.hpp"
#include "lockstep/core/buffer.hpp"
#include "pipeline.hpp"
#include "registry.hpp"

namespace lockstep::comm {

namespace {

/// Workspace: the chunk that each piece in flight receives.
std::size_t workspace_of(const PieceLayout& layout) {
  return layout.in_flight * layout.chunk * sizeof(float);
}

/// The ring algorithm (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations", 2009) in float32. The chunks of a piece pass round the ring of ranks twice: first
/// every rank adds its values to the chunks that it receives and forwards them (reduce-scatter),
/// then it forwards the sums (all-gather). Chunk k is summed in the order of the ring, beginning
/// with rank k.
class RingAllReduce final : public PipelinedAllReduce {
 public:
  RingAllReduce(const MessageRoute& route, std::span<float> values, const PieceLayout& layout)
      : PipelinedAllReduce(route, values, layout, requests),
        incoming_(workspace_of(layout)),
        slots_(layout.in_flight) {}

 private:
  enum Request : std::size_t { receiving, sending, requests };

  /// A piece in flight. In turn t = 0, 1, ... every rank sends chunk (rank - t) to the next rank
  /// and receives chunk (rank - t - 1), modulo the number of ranks. In the first ranks - 1 turns
  /// the received chunk is a partial sum, which is added to the values of this rank; in later turns
  /// it is the final sum.
  struct Slot {
    std::span<float> piece;
    std::size_t chunk = 0;
    std::size_t turn = 0;
    int messages = 0;  ///< messages of this turn that are not complete
  };

  std::size_t turns() const { return 2 * (ranks() - 1); }
  bool is_adding(const Slot& slot) const { return slot.turn < ranks() - 1; }
  std::span<float> outgoing(const Slot& slot) const {
    return chunk_at(slot.piece, slot.chunk, (rank() + 2 * ranks() - slot.turn) % ranks());
  }
  std::span<float> target(const Slot& slot) const {
    return chunk_at(slot.piece, slot.chunk, (rank() + 2 * ranks() - slot.turn - 1) % ranks());
  }
  std::span<float> receive_buffer(std::size_t index) const {
    const Slot& slot = slots_[index];
    const std::span<float> chunk = target(slot);
    return is_adding(slot) ? incoming_.as<float>().subspan(index * layout().chunk, chunk.size())
                           : chunk;
  }

  void load(std::size_t index, std::span<float> piece) override {
    slots_[index] = {.piece = piece, .chunk = PieceLayout::chunk_of(piece.size(), ranks())};
    begin_turn(index);
  }

  void begin_turn(std::size_t index) {
    const std::span<float> to = receive_buffer(index), from = outgoing(slots_[index]);
    receive(index, receiving, to.data(), to.size(), MPI_FLOAT, (rank() + ranks() - 1) % ranks(), 0);
    send(index, sending, from.data(), from.size(), MPI_FLOAT, (rank() + 1) % ranks(), 0);
    slots_[index].messages = requests;
  }

  void handle_completed(std::size_t index, std::size_t) override {
    Slot& slot = slots_[index];
    if (--slot.messages > 0) return;
    if (is_adding(slot)) add(receive_buffer(index), target(slot));
    if (++slot.turn < turns()) {
      begin_turn(index);
    } else {
      finish_piece(index);
    }
  }

  core::Buffer incoming_;
  std::vector<Slot> slots_;
};

PieceLayout layout_of(std::size_t elements, int ranks) {
  return {elements, static_cast<std::size_t>(ranks), sizeof(float)};
}

}  // namespace

AllReduceEntry ring_all_reduce() {
  return {
      .algorithm = AllReduceAlgorithm::ring,
      .workspace_bytes = [](std::size_t elements, int ranks,
                            core::DataType) { return workspace_of(layout_of(elements, ranks)); },
      .make = [](AllReduceResources& resources, std::span<float> values,
                 core::DataType) -> std::unique_ptr<AllReduce> {
        const MessageRoute route = resources.route();
        return std::make_unique<RingAllReduce>(route, values,
                                               layout_of(values.size(), route.ranks));
      }};
}

}  // namespace lockstep::comm
