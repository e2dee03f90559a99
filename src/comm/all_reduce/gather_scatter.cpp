// SPDX-License-Identifier: BSD-3-Clause
#include "gather_scatter.hpp"

#include <algorithm>
#include <vector>

#include "../elements.hpp"
#include "lockstep/core/buffer.hpp"
#include "pipeline.hpp"

namespace lockstep::comm {

namespace {

/// Rank 0 stores the contributions of all other ranks to each piece in flight, so that this number
/// limits its workspace.
constexpr std::size_t most_gathered_pieces = 4;

PieceLayout layout_of(std::size_t elements) {
  PieceLayout layout(elements, 2, sizeof(float));
  layout.in_flight = std::min(layout.in_flight, most_gathered_pieces);
  return layout;
}

std::size_t workspace_of(const PieceLayout& layout, std::size_t ranks) {
  return layout.in_flight * layout.piece * (ranks - 1) * sizeof(float);
}

/// Rank 0 receives the pieces of all ranks, adds them to its own in rank order, and sends the sums
/// back. Request r - 1 of a slot of rank 0 is the message from or to rank r.
class RootAllReduce final : public PipelinedAllReduce {
 public:
  RootAllReduce(const MessageRoute& route, std::span<float> values, const PieceLayout& layout,
                RootStages stages)
      : PipelinedAllReduce(route, values, layout, peers_of(route)),
        stages_(stages),
        incoming_(is_root() && gathers() ? workspace_of(layout, ranks()) : 0),
        slots_(layout.in_flight) {}

 private:
  enum Tag { contribution, sum };

  struct Slot {
    std::span<float> piece;
    bool is_gathering = false;
    std::size_t messages = 0;  ///< messages of this stage that are not complete
  };

  static std::size_t peers_of(const MessageRoute& route) {
    return route.rank == 0 ? static_cast<std::size_t>(route.ranks - 1) : 1;
  }
  bool is_root() const { return rank() == 0; }
  bool gathers() const { return stages_ != RootStages::scatter; }
  bool scatters() const { return stages_ != RootStages::gather; }

  /// Returns the receive buffer of rank 0 for the contribution of rank `peer` + 1.
  std::span<float> incoming(std::size_t index, std::size_t peer) const {
    const std::size_t place = index * (ranks() - 1) + peer;
    return incoming_.as<float>().subspan(place * layout().piece, slots_[index].piece.size());
  }

  void load(std::size_t index, std::span<float> piece) override {
    slots_[index] = {.piece = piece, .is_gathering = gathers()};
    if (gathers()) {
      gather(index);
    } else {
      scatter(index);
    }
  }

  void gather(std::size_t index) {
    Slot& slot = slots_[index];
    slot.messages = is_root() ? ranks() - 1 : 1;
    if (!is_root()) {
      send(index, 0, slot.piece.data(), slot.piece.size(), MPI_FLOAT, 0, contribution);
      return;
    }
    for (std::size_t peer = 0; peer + 1 < ranks(); ++peer) {
      const std::span<float> to = incoming(index, peer);
      receive(index, peer, to.data(), to.size(), MPI_FLOAT, peer + 1, contribution);
    }
  }

  void scatter(std::size_t index) {
    Slot& slot = slots_[index];
    slot.is_gathering = false;
    slot.messages = is_root() ? ranks() - 1 : 1;
    if (!is_root()) {
      receive(index, 0, slot.piece.data(), slot.piece.size(), MPI_FLOAT, 0, sum);
      return;
    }
    for (std::size_t peer = 0; peer + 1 < ranks(); ++peer)
      send(index, peer, slot.piece.data(), slot.piece.size(), MPI_FLOAT, peer + 1, sum);
  }

  void handle_completed(std::size_t index, std::size_t) override {
    Slot& slot = slots_[index];
    if (--slot.messages > 0) return;
    if (slot.is_gathering && is_root()) {
      for (std::size_t peer = 0; peer + 1 < ranks(); ++peer) add(incoming(index, peer), slot.piece);
    }
    if (slot.is_gathering && scatters()) {
      scatter(index);  // overwrites the contribution, which was sent
    } else {
      finish_piece(index);
    }
  }

  RootStages stages_;
  core::Buffer incoming_;
  std::vector<Slot> slots_;
};

}  // namespace

std::unique_ptr<AllReduce> make_root_all_reduce(const MessageRoute& route, std::span<float> values,
                                                RootStages stages) {
  return std::make_unique<RootAllReduce>(route, values, layout_of(values.size()), stages);
}

AllReduceEntry gather_scatter_all_reduce() {
  return {.algorithm = AllReduceAlgorithm::gather_scatter,
          .help = "rank 0 sums",
          .selection = Selection::on_request,
          .workspace_bytes =
              [](std::size_t elements, int ranks, core::DataType) {
                return workspace_of(layout_of(elements), static_cast<std::size_t>(ranks));
              },
          .make =
              [](AllReduceResources& resources, std::span<float> values, core::DataType) {
                return make_root_all_reduce(resources.route(), values,
                                            RootStages::gather_and_scatter);
              }};
}

}  // namespace lockstep::comm
