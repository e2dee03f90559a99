// SPDX-License-Identifier: BSD-3-Clause
#include "direct.hpp"

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "../elements.hpp"
#include "lockstep/core/buffer.hpp"
#include "registry.hpp"

namespace lockstep::comm {

namespace {

using core::BFloat16;

/// Returns the bytes of the contributions of the other ranks to the chunk of this rank.
std::size_t incoming_bytes(const PieceLayout& layout, std::size_t ranks,
                           std::size_t element_bytes) {
  return layout.chunk * (ranks - 1) * element_bytes;
}

void copy(std::span<const float> from, std::span<float> to) {
  std::copy(from.begin(), from.end(), to.begin());
}
void copy(std::span<const BFloat16> from, std::span<float> to) { core::convert(from, to); }
void copy(std::span<const float> from, std::span<BFloat16> to) { core::convert(from, to); }

/// `Sent`: communication data type.
template <class Sent>
class DirectAllReduce final : public PipelinedAllReduce {
 public:
  DirectAllReduce(const MessageRoute& route, std::span<float> values, const PieceLayout& layout)
      : PipelinedAllReduce(route, values, layout, kinds * route.ranks),
        incoming_(layout.in_flight * incoming_bytes(layout, ranks(), sizeof(Sent))),
        encoded_(is_encoded ? layout.in_flight * layout.piece * sizeof(Sent) : 0),
        slots_(layout.in_flight) {}

 private:
  static constexpr bool is_encoded = !std::is_same_v<Sent, float>;

  /// Messages of a piece; request `kind * ranks + rank` is the one from or to `rank`.
  enum Message : std::size_t { contribution_in, contribution_out, sum_in, sum_out, kinds };

  struct Slot {
    std::span<float> piece;
    std::span<Sent> sent;   ///< the piece in the communication data type: send buffer of chunks,
                            ///< receive buffer of sums
    std::size_t chunk = 0;  ///< elements of a chunk; the last ones may be shorter or empty
    std::size_t contributions = 0;  ///< contributions that have not arrived
    std::size_t messages = 0;       ///< messages of any kind that are not complete, posted or not

    std::span<Sent> chunk_of(std::size_t rank) const {
      return chunks_at(sent, chunk, rank, rank + 1);
    }
  };

  /// Returns the receive buffer for the contribution of `source` to the chunk of this rank.
  std::span<Sent> incoming(std::size_t slot, std::size_t source) const {
    const std::size_t peer = source < rank() ? source : source - 1;
    return incoming_.template as<Sent>().subspan((slot * (ranks() - 1) + peer) * layout().chunk,
                                                 slots_[slot].chunk_of(rank()).size());
  }

  void post(std::size_t slot, Message kind, std::size_t peer, std::span<Sent> data) {
    const int tag = kind == sum_in || kind == sum_out ? 1 : 0;
    const std::size_t request = kind * ranks() + peer;
    if (kind == contribution_in || kind == sum_in) {
      receive(slot, request, std::as_writable_bytes(data), peer, tag);
    } else {
      send(slot, request, std::as_bytes(data), peer, tag);
    }
  }

  /// Calls `action` with every other rank, beginning with the next one, so that not all ranks send
  /// to the same rank at first.
  template <class Action>
  void for_each_peer(Action action) {
    for (std::size_t i = 1; i < ranks(); ++i) action((rank() + i) % ranks());
  }

  void load(std::size_t index, std::span<float> piece) override {
    Slot& slot = slots_[index];
    slot.piece = piece;
    slot.chunk = PieceLayout::chunk_of(piece.size(), ranks());
    if constexpr (is_encoded) {
      slot.sent = encoded_.template as<Sent>().subspan(index * layout().piece, piece.size());
      copy(slot.piece, slot.sent);
    } else {
      slot.sent = slot.piece;
    }
    slot.contributions = 0;
    slot.messages = 0;
    const bool owns_chunk = !slot.chunk_of(rank()).empty();
    for_each_peer([&](std::size_t peer) {
      if (owns_chunk) {
        post(index, contribution_in, peer, incoming(index, peer));
        slot.contributions += 1;
        slot.messages += 2;  // this one, and the sum that is sent back
      }
      if (!slot.chunk_of(peer).empty()) {
        post(index, contribution_out, peer, slot.chunk_of(peer));
        slot.messages += 2;  // this one, and the sum that is received
      }
    });
  }

  void handle_completed(std::size_t index, std::size_t request) override {
    const std::size_t kind = request / ranks();
    const std::size_t peer = request % ranks();
    Slot& slot = slots_[index];
    --slot.messages;
    if (kind == contribution_in && --slot.contributions == 0) {
      add_in_rank_order(index);
      for_each_peer([&](std::size_t to) { post(index, sum_out, to, slot.chunk_of(rank())); });
    } else if (kind == contribution_out) {
      post(index, sum_in, peer, slot.chunk_of(peer));  // overwrites the contribution that was sent
    }
    if (slot.messages > 0) return;
    if constexpr (is_encoded) copy(slot.sent, slot.piece);
    finish_piece(index);
  }

  void add_in_rank_order(std::size_t slot) {
    std::array<float, 2048> block;  // fits in the L1 cache
    const std::span<Sent> own = slots_[slot].chunk_of(rank());
    for (std::size_t begin = 0; begin < own.size(); begin += block.size()) {
      const std::size_t count = std::min(block.size(), own.size() - begin);
      const std::span<float> sum(block.data(), count);
      for (std::size_t source = 0; source < ranks(); ++source) {
        const std::span<const Sent> part =
            (source == rank() ? own : incoming(slot, source)).subspan(begin, count);
        if (source == 0) {
          copy(part, sum);
        } else {
          add(part, sum);
        }
      }
      copy(sum, own.subspan(begin, count));
    }
  }

  core::Buffer incoming_;
  core::Buffer encoded_;
  std::vector<Slot> slots_;
};

}  // namespace

std::unique_ptr<AllReduce> make_direct_all_reduce(const MessageRoute& route,
                                                  std::span<float> values,
                                                  core::DataType communication_type) {
  const PieceLayout layout(values.size(), route.ranks, core::size_of(communication_type));
  if (communication_type == core::DataType::float32)
    return std::make_unique<DirectAllReduce<float>>(route, values, layout);
  return std::make_unique<DirectAllReduce<BFloat16>>(route, values, layout);
}

std::size_t direct_workspace_bytes(std::size_t elements, std::size_t ranks,
                                   core::DataType communication_type) {
  const std::size_t element_bytes = core::size_of(communication_type);
  const PieceLayout layout(elements, ranks, element_bytes);
  const std::size_t encoded =
      communication_type == core::DataType::float32 ? 0 : layout.piece * element_bytes;
  return layout.in_flight * (incoming_bytes(layout, ranks, element_bytes) + encoded);
}

AllReduceEntry direct_all_reduce() {
  return {.algorithm = AllReduceAlgorithm::direct,
          .help = "pairwise exchange",
          .types = CommunicationTypes::any,
          .workspace_bytes = direct_workspace_bytes,
          .make = [](AllReduceResources& resources, std::span<float> values,
                     core::DataType communication_type) {
            return make_direct_all_reduce(resources.route(), values, communication_type);
          }};
}

}  // namespace lockstep::comm
