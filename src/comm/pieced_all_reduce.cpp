#include "pieced_all_reduce.hpp"

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"
#include "mpi_check.hpp"
#include "requests.hpp"
#include "sum_kernels.hpp"

namespace lockstep::comm {

namespace {

using core::BFloat16;

// Workspace in bytes per piece in flight: the contributions of the other ranks to the chunk of this
// rank, and, unless the communication data type is float32, the converted piece.
std::size_t incoming_bytes(const PieceLayout& layout, std::size_t ranks, std::size_t wire_bytes) {
  return layout.chunk * (ranks - 1) * wire_bytes;
}
std::size_t encoded_bytes(const PieceLayout& layout, core::DataType wire) {
  return wire == core::DataType::float32 ? 0 : layout.piece * core::size_of(wire);
}

void copy(std::span<const float> from, std::span<float> to) {
  std::copy(from.begin(), from.end(), to.begin());
}
void copy(std::span<const BFloat16> from, std::span<float> to) { core::convert(from, to); }
void copy(std::span<const float> from, std::span<BFloat16> to) { core::convert(from, to); }

template <class Wire>
class PiecedAllReduce final : public AllReduce {
 public:
  PiecedAllReduce(const MessageRoute& route, std::span<float> values)
      : route_(route),
        ranks_(static_cast<std::size_t>(route.ranks)),
        values_(values),
        layout_(values.size(), ranks_, sizeof(Wire)),
        incoming_(layout_.in_flight * incoming_bytes(layout_, ranks_, sizeof(Wire))),
        encoded_(is_encoded ? layout_.in_flight * layout_.piece * sizeof(Wire) : 0),
        slots_(layout_.in_flight),
        requests_(layout_.in_flight * messages_per_slot()) {}

  void start() override {
    core::check(busy_slots_ == 0, "an all-reduce is started while its last sum is on its way");
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) load(slot, slot);
  }

  bool progress() override {
    const auto handle = [this](std::size_t request) { handle_completed(request); };
    while (busy_slots_ > 0) {
      if (!requests_.take_completed(handle)) return false;
    }
    return true;
  }

 private:
  static constexpr bool is_encoded = !std::is_same_v<Wire, float>;

  enum Message : std::size_t { contribution_in, contribution_out, sum_in, sum_out, kinds };

  /// A piece in flight. Slot s processes the pieces s, s + in_flight, ... on every rank, so that
  /// messages with the same tag match in the order of their pieces.
  struct Slot {
    std::size_t number = 0;  ///< index of the piece
    std::span<float> piece;
    std::span<Wire> wire;   ///< the piece in the communication data type: send buffer of chunks,
                            ///< receive buffer of sums
    std::size_t chunk = 0;  ///< elements of a chunk; the last ones may be shorter or empty
    std::size_t contributions = 0;  ///< contributions that have not arrived
    std::size_t messages = 0;       ///< messages of any kind that are not complete, posted or not

    std::span<Wire> chunk_of(std::size_t rank) const {
      const std::size_t begin = std::min(rank * chunk, wire.size());
      return wire.subspan(begin, std::min(chunk, wire.size() - begin));
    }
  };

  std::size_t own_rank() const { return static_cast<std::size_t>(route_.rank); }
  std::size_t messages_per_slot() const { return kinds * ranks_; }

  /// Returns the receive buffer for the contribution of `rank` to the chunk of this rank.
  std::span<Wire> incoming(std::size_t slot, std::size_t rank) const {
    const std::size_t peer = rank < own_rank() ? rank : rank - 1;
    return incoming_.template as<Wire>().subspan((slot * (ranks_ - 1) + peer) * layout_.chunk,
                                                 slots_[slot].chunk_of(own_rank()).size());
  }

  void post(std::size_t slot, Message kind, std::size_t rank, std::span<Wire> data) {
    const MPI_Datatype type = is_encoded ? MPI_UINT16_T : MPI_FLOAT;
    const int count = static_cast<int>(data.size());
    const int peer = static_cast<int>(rank);
    const bool is_sum = kind == sum_in || kind == sum_out;
    const int tag = route_.first_tag + 2 * static_cast<int>(slot) + (is_sum ? 1 : 0);
    MPI_Request& request = requests_[slot * messages_per_slot() + kind * ranks_ + rank];
    if (kind == contribution_in || kind == sum_in) {
      check_mpi(MPI_Irecv(data.data(), count, type, peer, tag, route_.comm, &request), "MPI_Irecv");
    } else {
      check_mpi(MPI_Isend(data.data(), count, type, peer, tag, route_.comm, &request), "MPI_Isend");
    }
  }

  /// Calls `action` with every other rank, beginning with the next one, so that not all ranks send
  /// to the same rank at first.
  template <class Action>
  void for_each_peer(Action action) {
    for (std::size_t i = 1; i < ranks_; ++i) action((own_rank() + i) % ranks_);
  }

  void load(std::size_t index, std::size_t number) {
    const std::size_t begin = number * layout_.piece;
    Slot& slot = slots_[index];
    slot.number = number;
    slot.piece = values_.subspan(begin, std::min(layout_.piece, values_.size() - begin));
    slot.chunk = PieceLayout::chunk_of(slot.piece.size(), ranks_);
    if constexpr (is_encoded) {
      slot.wire = encoded_.template as<Wire>().subspan(index * layout_.piece, slot.piece.size());
      copy(slot.piece, slot.wire);
    } else {
      slot.wire = slot.piece;
    }
    slot.contributions = 0;
    slot.messages = 0;
    const bool owns_chunk = !slot.chunk_of(own_rank()).empty();
    for_each_peer([&](std::size_t rank) {
      if (owns_chunk) {
        post(index, contribution_in, rank, incoming(index, rank));
        slot.contributions += 1;
        slot.messages += 2;  // this one, and the sum that is sent back
      }
      if (!slot.chunk_of(rank).empty()) {
        post(index, contribution_out, rank, slot.chunk_of(rank));
        slot.messages += 2;  // this one, and the sum that is received
      }
    });
    ++busy_slots_;
  }

  void handle_completed(std::size_t request) {
    const std::size_t index = request / messages_per_slot();
    const std::size_t kind = request % messages_per_slot() / ranks_;
    const std::size_t rank = request % ranks_;
    Slot& slot = slots_[index];
    --slot.messages;
    if (kind == contribution_in && --slot.contributions == 0) {
      add_in_rank_order(index);
      for_each_peer(
          [&](std::size_t peer) { post(index, sum_out, peer, slot.chunk_of(own_rank())); });
    } else if (kind == contribution_out) {
      post(index, sum_in, rank, slot.chunk_of(rank));  // overwrites the contribution that was sent
    }
    if (slot.messages > 0) return;
    if constexpr (is_encoded) copy(slot.wire, slot.piece);
    --busy_slots_;
    if (const std::size_t next = slot.number + layout_.in_flight; next < layout_.pieces) {
      load(index, next);
    }
  }

  void add_in_rank_order(std::size_t slot) {
    std::array<float, 2048> block;  // fits in the L1 cache
    const std::span<Wire> own = slots_[slot].chunk_of(own_rank());
    for (std::size_t begin = 0; begin < own.size(); begin += block.size()) {
      const std::size_t count = std::min(block.size(), own.size() - begin);
      const std::span<float> sum(block.data(), count);
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        const std::span<const Wire> part =
            (rank == own_rank() ? own : incoming(slot, rank)).subspan(begin, count);
        if (rank == 0) {
          copy(part, sum);
        } else {
          add(part, sum);
        }
      }
      copy(sum, own.subspan(begin, count));
    }
  }

  MessageRoute route_;
  std::size_t ranks_;
  std::span<float> values_;
  PieceLayout layout_;
  core::Buffer incoming_;
  core::Buffer encoded_;
  std::vector<Slot> slots_;
  Requests requests_;  ///< [slot][Message][rank]
  std::size_t busy_slots_ = 0;
};

}  // namespace

std::size_t all_reduce_scratch_bytes(std::size_t elements, int ranks, core::DataType wire) {
  const auto count = static_cast<std::size_t>(ranks);
  const PieceLayout layout(elements, count, core::size_of(wire));
  return layout.in_flight *
         (incoming_bytes(layout, count, core::size_of(wire)) + encoded_bytes(layout, wire));
}

std::unique_ptr<AllReduce> make_pieced_all_reduce(const MessageRoute& route,
                                                  std::span<float> values, core::DataType wire) {
  check_wire(wire);
  if (wire == core::DataType::float32) {
    return std::make_unique<PiecedAllReduce<float>>(route, values);
  }
  return std::make_unique<PiecedAllReduce<BFloat16>>(route, values);
}

}  // namespace lockstep::comm
