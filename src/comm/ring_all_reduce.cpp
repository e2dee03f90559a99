#include "ring_all_reduce.hpp"

#include <algorithm>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"
#include "mpi_check.hpp"
#include "requests.hpp"
#include "sum_kernels.hpp"

namespace lockstep::comm {

namespace {

class RingAllReduce final : public AllReduce {
 public:
  RingAllReduce(const MessageRoute& route, std::span<float> values)
      : route_(route),
        ranks_(static_cast<std::size_t>(route.ranks)),
        rank_(static_cast<std::size_t>(route.rank)),
        values_(values),
        layout_(values.size(), ranks_, sizeof(float)),
        incoming_(layout_.in_flight * layout_.chunk * sizeof(float)),
        slots_(layout_.in_flight),
        requests_(2 * layout_.in_flight) {}

  void start() override {
    core::check(busy_slots_ == 0, "an all-reduce is started while its last sum is on its way");
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) load(slot, slot);
  }

  bool progress() override {
    const auto handle = [this](std::size_t request) {
      if (--slots_[request / 2].messages == 0) finish_turn(request / 2);
    };
    while (busy_slots_ > 0) {
      if (!requests_.take_completed(handle)) return false;
    }
    return true;
  }

 private:
  /// A piece in flight. In turn t = 0, 1, ... every rank sends chunk (rank - t) to the next rank
  /// and receives chunk (rank - t - 1), modulo the number of ranks. In the first ranks - 1 turns
  /// the received chunk is a partial sum, which is added to the values of this rank; in later turns
  /// it is the final sum.
  struct Slot {
    std::size_t number = 0;  ///< index of the piece
    std::span<float> piece;
    std::size_t chunk = 0;
    std::size_t turn = 0;
    int messages = 0;  ///< messages of this turn that are not complete

    std::span<float> chunk_of(std::size_t rank) const {
      const std::size_t begin = std::min(rank * chunk, piece.size());
      return piece.subspan(begin, std::min(chunk, piece.size() - begin));
    }
  };

  std::size_t turns() const { return 2 * (ranks_ - 1); }
  bool is_adding(const Slot& slot) const { return slot.turn < ranks_ - 1; }
  std::span<float> leaving(const Slot& slot) const {
    return slot.chunk_of((rank_ + 2 * ranks_ - slot.turn) % ranks_);
  }
  std::span<float> arriving(const Slot& slot) const {
    return slot.chunk_of((rank_ + 2 * ranks_ - slot.turn - 1) % ranks_);
  }
  std::span<float> landing(std::size_t index) const {
    const Slot& slot = slots_[index];
    const std::span<float> chunk = arriving(slot);
    return is_adding(slot) ? incoming_.as<float>().subspan(index * layout_.chunk, chunk.size())
                           : chunk;
  }

  void load(std::size_t index, std::size_t number) {
    const std::size_t begin = number * layout_.piece;
    Slot& slot = slots_[index];
    slot.number = number;
    slot.piece = values_.subspan(begin, std::min(layout_.piece, values_.size() - begin));
    slot.chunk = PieceLayout::chunk_of(slot.piece.size(), ranks_);
    slot.turn = 0;
    ++busy_slots_;
    begin_turn(index);
  }

  void begin_turn(std::size_t index) {
    Slot& slot = slots_[index];
    const int tag = route_.first_tag + static_cast<int>(index);
    const int next = static_cast<int>((rank_ + 1) % ranks_);
    const int previous = static_cast<int>((rank_ + ranks_ - 1) % ranks_);
    const std::span<float> to = landing(index), from = leaving(slot);
    check_mpi(MPI_Irecv(to.data(), static_cast<int>(to.size()), MPI_FLOAT, previous, tag,
                        route_.comm, &requests_[2 * index]),
              "MPI_Irecv");
    check_mpi(MPI_Isend(from.data(), static_cast<int>(from.size()), MPI_FLOAT, next, tag,
                        route_.comm, &requests_[2 * index + 1]),
              "MPI_Isend");
    slot.messages = 2;
  }

  void finish_turn(std::size_t index) {
    Slot& slot = slots_[index];
    if (is_adding(slot)) add(landing(index), arriving(slot));
    if (++slot.turn < turns()) {
      begin_turn(index);
      return;
    }
    --busy_slots_;
    if (const std::size_t next = slot.number + layout_.in_flight; next < layout_.pieces)
      load(index, next);
  }

  MessageRoute route_;
  std::size_t ranks_, rank_;
  std::span<float> values_;
  PieceLayout layout_;
  core::Buffer incoming_;
  std::vector<Slot> slots_;
  Requests requests_;  ///< [slot][receive, send]
  std::size_t busy_slots_ = 0;
};

}  // namespace

std::unique_ptr<AllReduce> make_ring_all_reduce(const MessageRoute& route,
                                                std::span<float> values) {
  return std::make_unique<RingAllReduce>(route, values);
}

}  // namespace lockstep::comm
