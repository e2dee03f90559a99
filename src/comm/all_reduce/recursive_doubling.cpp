// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <bit>
#include <vector>

#include "../elements.hpp"
#include "lockstep/core/buffer.hpp"
#include "pipeline.hpp"
#include "registry.hpp"

// Recursive doubling and halving-doubling: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization
// of collective communication operations in MPICH", International Journal of High Performance
// Computing Applications 19 (1), 2005.
namespace lockstep::comm {

namespace {

/// Arrays of up to this size are exchanged as a whole; longer ones are halved.
constexpr std::size_t longest_exchange_bytes = std::size_t{16} << 10;

/// Chunks `begin` to `end` - 1 of a piece.
struct Chunks {
  std::size_t begin = 0, end = 0;
};

/// One exchange with another rank. No message is sent or received if there are no chunks. `adds`:
/// the received values are added to those of this rank; otherwise they replace them.
struct Exchange {
  std::size_t peer = 0;
  Chunks sent, received;
  bool adds = false;
};

/// The roles of the ranks. P = `power` of them, the largest power of two, sum the array. If there
/// are more ranks, the first 2 (N - P) form pairs: the even rank of a pair sends its values to the
/// odd one before the sum and receives the sums after it.
struct Roles {
  std::size_t power, pairs;

  explicit Roles(std::size_t ranks) : power(std::bit_floor(ranks)), pairs(ranks - power) {}
  bool is_paired(std::size_t rank) const { return rank < 2 * pairs; }
  /// Returns the index of a rank among those that sum, and its inverse.
  std::size_t index_of(std::size_t rank) const { return is_paired(rank) ? rank / 2 : rank - pairs; }
  std::size_t rank_of(std::size_t index) const {
    return index < pairs ? 2 * index + 1 : index + pairs;
  }
};

/// Recursive doubling: in log2 P exchanges of all chunks, each rank adds the sums of a group of
/// ranks that is as large as its own.
void append_doubling(std::size_t index, const Roles& roles, std::vector<Exchange>& exchanges) {
  const Chunks all{0, roles.power};
  for (std::size_t distance = 1; distance < roles.power; distance *= 2)
    exchanges.push_back({roles.rank_of(index ^ distance), all, all, true});
}

/// Halving-doubling (Rabenseifner): a reduce-scatter that halves the chunks of each rank in every
/// exchange, then an all-gather that doubles them.
void append_halving(std::size_t index, const Roles& roles, std::vector<Exchange>& exchanges) {
  Chunks own{0, roles.power};
  for (std::size_t distance = roles.power / 2; distance >= 1; distance /= 2) {
    const Chunks lower{own.begin, own.begin + distance}, upper{own.begin + distance, own.end};
    const bool is_upper = (index & distance) != 0;
    own = is_upper ? upper : lower;
    exchanges.push_back({roles.rank_of(index ^ distance), is_upper ? lower : upper, own, true});
  }
  for (std::size_t distance = 1; distance < roles.power; distance *= 2) {
    const std::size_t other = own.begin ^ distance, first = std::min(own.begin, other);
    exchanges.push_back({roles.rank_of(index ^ distance), own, {other, other + distance}, false});
    own = {first, first + 2 * distance};
  }
}

bool is_short(std::size_t elements) { return elements * sizeof(float) <= longest_exchange_bytes; }

/// Returns the exchanges of one rank, which are the same for each piece of the array.
std::vector<Exchange> exchanges_of(std::size_t rank, const Roles& roles, std::size_t elements) {
  const Chunks all{0, roles.power}, none;
  std::vector<Exchange> exchanges;
  if (roles.is_paired(rank) && rank % 2 == 0)
    return {{rank + 1, all, none, false}, {rank + 1, none, all, false}};
  if (roles.is_paired(rank)) exchanges.push_back({rank - 1, none, all, true});
  const std::size_t index = roles.index_of(rank);
  if (is_short(elements)) {
    append_doubling(index, roles, exchanges);
  } else {
    append_halving(index, roles, exchanges);
  }
  if (roles.is_paired(rank)) exchanges.push_back({rank - 1, all, none, false});
  return exchanges;
}

PieceLayout layout_of(std::size_t elements, std::size_t ranks) {
  return {elements, std::min<std::size_t>(ranks, 2), sizeof(float)};
}

/// Returns the largest number of elements of a piece that are received to be added: the whole piece
/// from the other rank of a pair and in recursive doubling, otherwise half of it.
std::size_t most_added(const PieceLayout& layout, std::size_t elements, const Roles& roles) {
  const bool is_whole = roles.pairs > 0 || is_short(elements);
  return PieceLayout::chunk_of(layout.piece, roles.power) *
         (is_whole ? roles.power : roles.power / 2);
}

class RecursiveDoublingAllReduce final : public PipelinedAllReduce {
 public:
  RecursiveDoublingAllReduce(const MessageRoute& route, std::span<float> values,
                             const PieceLayout& layout)
      : PipelinedAllReduce(route, values, layout, requests),
        roles_(ranks()),
        exchanges_(exchanges_of(rank(), roles_, values.size())),
        buffer_length_(most_added(layout, values.size(), roles_)),
        incoming_(layout.in_flight * buffer_length_ * sizeof(float)),
        slots_(layout.in_flight) {}

 private:
  enum Request : std::size_t { receiving, sending, requests };

  /// A piece in flight.
  struct Slot {
    std::span<float> piece;
    std::size_t exchange = 0;  ///< index of the current exchange
    int messages = 0;          ///< messages of this exchange that are not complete
  };

  std::span<float> part_of(const Slot& slot, Chunks chunks) const {
    const std::size_t length = PieceLayout::chunk_of(slot.piece.size(), roles_.power);
    const std::size_t begin = std::min(chunks.begin * length, slot.piece.size());
    const std::size_t end = std::min(chunks.end * length, slot.piece.size());
    return slot.piece.subspan(begin, end - begin);
  }

  std::span<float> receive_buffer(std::size_t index) const {
    const Exchange& exchange = exchanges_[slots_[index].exchange];
    const std::span<float> target = part_of(slots_[index], exchange.received);
    if (!exchange.adds) return target;
    return incoming_.as<float>().subspan(index * buffer_length_, target.size());
  }

  void load(std::size_t index, std::span<float> piece) override {
    slots_[index] = {.piece = piece};
    begin_exchange(index);
  }

  void begin_exchange(std::size_t index) {
    Slot& slot = slots_[index];
    const Exchange& exchange = exchanges_[slot.exchange];
    const auto has = [](Chunks chunks) { return chunks.begin < chunks.end; };
    slot.messages = (has(exchange.received) ? 1 : 0) + (has(exchange.sent) ? 1 : 0);
    if (has(exchange.received)) {
      const std::span<float> to = receive_buffer(index);
      receive(index, receiving, to.data(), to.size(), MPI_FLOAT, exchange.peer, 0);
    }
    if (has(exchange.sent)) {
      const std::span<float> from = part_of(slot, exchange.sent);
      send(index, sending, from.data(), from.size(), MPI_FLOAT, exchange.peer, 0);
    }
  }

  void handle_completed(std::size_t index, std::size_t) override {
    Slot& slot = slots_[index];
    if (--slot.messages > 0) return;
    const Exchange& exchange = exchanges_[slot.exchange];
    if (exchange.adds) add(receive_buffer(index), part_of(slot, exchange.received));
    if (++slot.exchange < exchanges_.size()) {
      begin_exchange(index);
    } else {
      finish_piece(index);
    }
  }

  Roles roles_;
  std::vector<Exchange> exchanges_;
  std::size_t buffer_length_;  ///< elements of the receive buffer of a slot
  core::Buffer incoming_;
  std::vector<Slot> slots_;
};

}  // namespace

AllReduceEntry recursive_doubling_all_reduce() {
  return {.algorithm = AllReduceAlgorithm("recursive-doubling"),
          .help = "halving-doubling for arrays of more than 16 KiB",
          .workspace_bytes =
              [](std::size_t elements, int ranks, core::DataType) {
                const auto count = static_cast<std::size_t>(ranks);
                const PieceLayout layout = layout_of(elements, count);
                return layout.in_flight * most_added(layout, elements, Roles(count)) *
                       sizeof(float);
              },
          .make = [](AllReduceResources& resources, std::span<float> values,
                     core::DataType) -> std::unique_ptr<AllReduce> {
            const MessageRoute route = resources.route();
            return std::make_unique<RecursiveDoublingAllReduce>(
                route, values, layout_of(values.size(), static_cast<std::size_t>(route.ranks)));
          }};
}

}  // namespace lockstep::comm
