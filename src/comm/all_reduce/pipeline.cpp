// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline.hpp"

#include <algorithm>
#include <utility>

#include "../elements.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

namespace {

// Chunk lengths are multiples of this number of elements, so that each chunk starts on a cache line
// in both data types.
constexpr std::size_t chunk_multiple = 32;

constexpr std::size_t divide_up(std::size_t value, std::size_t by) { return (value + by - 1) / by; }
constexpr std::size_t round_up(std::size_t value, std::size_t to) {
  return divide_up(value, to) * to;
}

}  // namespace

PieceLayout::PieceLayout(std::size_t elements, std::size_t chunks, std::size_t element_bytes) {
  if (chunks == 1 || elements == 0) return;
  // Messages must be large enough for their latency to be negligible, and small enough for the
  // first sums to return long before the last contributions have been sent. Between 128 KiB and 512
  // KiB no size was clearly fastest, on a 1 Gbit/s link or in shared memory.
  const std::size_t smallest = (std::size_t{64} << 10) / element_bytes;
  const std::size_t largest = (std::size_t{256} << 10) / element_bytes;
  constexpr std::size_t wanted_pieces = 8;
  chunk = round_up(std::clamp(divide_up(elements, chunks * wanted_pieces), smallest, largest),
                   chunk_multiple);
  piece = chunk * chunks;
  pieces = divide_up(elements, piece);
  in_flight = std::min<std::size_t>(pieces, most_pieces_in_flight);
}

std::size_t PieceLayout::chunk_of(std::size_t piece_elements, std::size_t chunks) {
  return round_up(divide_up(piece_elements, chunks), chunk_multiple);
}

PipelinedAllReduce::PipelinedAllReduce(MessageRoute route, std::span<float> values,
                                       const PieceLayout& layout, std::size_t requests_per_slot)
    : route_(std::move(route)),
      values_(values),
      layout_(layout),
      numbers_(layout.in_flight),
      requests_per_slot_(requests_per_slot),
      requests_(layout.in_flight * requests_per_slot) {}

void PipelinedAllReduce::start() {
  core::check(busy_slots_ == 0, "an all-reduce is started while its last sum is in progress");
  traffic_ = {};
  for (std::size_t slot = 0; slot < layout_.in_flight; ++slot) load_piece(slot, slot);
}

bool PipelinedAllReduce::progress() {
  const auto handle = [this](std::size_t request) {
    handle_completed(request / requests_per_slot_, request % requests_per_slot_);
  };
  while (busy_slots_ > 0) {
    if (!requests_.take_completed(handle)) return false;
  }
  return true;
}

void PipelinedAllReduce::load_piece(std::size_t slot, std::size_t number) {
  const std::size_t begin = number * layout_.piece;
  numbers_[slot] = number;
  ++busy_slots_;
  load(slot, values_.subspan(begin, std::min(layout_.piece, values_.size() - begin)));
}

void PipelinedAllReduce::finish_piece(std::size_t slot) {
  --busy_slots_;
  const std::size_t next = numbers_[slot] + layout_.in_flight;
  if (next < layout_.pieces) load_piece(slot, next);
}

int PipelinedAllReduce::tag_of(std::size_t slot, int tag) const {
  return *route_.first_tag + 2 * static_cast<int>(slot) + tag;
}

void PipelinedAllReduce::receive(std::size_t slot, std::size_t request, std::span<std::byte> data,
                                 std::size_t source, int tag) {
  traffic_.received_bytes += static_cast<double>(data.size());
  check_mpi(
      MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, static_cast<int>(source),
                tag_of(slot, tag), route_.comm, &requests_[slot * requests_per_slot_ + request]),
      "MPI_Irecv");
}

void PipelinedAllReduce::send(std::size_t slot, std::size_t request,
                              std::span<const std::byte> data, std::size_t destination, int tag) {
  traffic_.sent_bytes += static_cast<double>(data.size());
  check_mpi(
      MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, static_cast<int>(destination),
                tag_of(slot, tag), route_.comm, &requests_[slot * requests_per_slot_ + request]),
      "MPI_Isend");
}

std::size_t Schedule::most_added() const {
  std::size_t most = 0;
  for (const auto& step : steps) {
    std::size_t added = 0;
    for (const ChunkMessage& message : step)
      if (message.kind == ChunkMessage::Kind::add) added += message.end - message.begin;
    most = std::max(most, added);
  }
  return most * PieceLayout::chunk_of(layout.piece, chunks);
}

namespace {

std::size_t most_messages(const Schedule& schedule) {
  std::size_t most = 0;
  for (const auto& step : schedule.steps) most = std::max(most, step.size());
  return most;
}

class ScheduledAllReduce final : public PipelinedAllReduce {
 public:
  ScheduledAllReduce(const MessageRoute& route, std::span<float> values, Schedule schedule)
      : PipelinedAllReduce(route, values, schedule.layout, most_messages(schedule)),
        schedule_(std::move(schedule)),
        most_added_(schedule_.most_added()),
        incoming_(schedule_.workspace_bytes()),
        slots_(schedule_.layout.in_flight) {}

 private:
  using Kind = ChunkMessage::Kind;

  /// A piece in flight.
  struct Slot {
    std::span<float> piece;
    std::size_t step = 0;
    std::size_t messages = 0;  ///< messages of this step that are not complete
  };

  void load(std::size_t index, std::span<float> piece) override {
    slots_[index] = {.piece = piece};
    begin_step(index);
  }

  void begin_step(std::size_t index) {
    Slot& slot = slots_[index];
    slot.messages = schedule_.steps[slot.step].size();
    std::size_t request = 0;
    for_each_message(
        index, [&](const ChunkMessage& message, std::span<float> part, std::span<float> buffer) {
          if (message.kind == Kind::send) {
            send(index, request++, std::as_bytes(part), message.peer);
          } else {
            receive(index, request++, std::as_writable_bytes(buffer), message.peer);
          }
        });
  }

  void handle_completed(std::size_t index, std::size_t) override {
    Slot& slot = slots_[index];
    if (--slot.messages > 0) return;
    for_each_message(index, [](const ChunkMessage& message, std::span<float> part,
                               std::span<const float> buffer) {
      if (message.kind == Kind::add) add(buffer, part);
    });
    if (++slot.step < schedule_.steps.size()) {
      begin_step(index);
    } else {
      finish_piece(index);
    }
  }

  /// Calls `action` with each message of the current step of a slot, the part of the piece that it
  /// contains, and its receive buffer, which is the part unless the values are added to it.
  template <class Action>
  void for_each_message(std::size_t index, Action action) {
    const Slot& slot = slots_[index];
    const std::size_t length = PieceLayout::chunk_of(slot.piece.size(), schedule_.chunks);
    std::size_t used = index * most_added_;
    for (const ChunkMessage& message : schedule_.steps[slot.step]) {
      const auto part = chunks_at(slot.piece, length, message.begin, message.end);
      if (message.kind == Kind::add) {
        action(message, part, incoming_.as<float>().subspan(used, part.size()));
        used += part.size();
      } else {
        action(message, part, part);
      }
    }
  }

  Schedule schedule_;
  std::size_t most_added_;
  core::Buffer incoming_;  ///< values to be added, `most_added_` per slot
  std::vector<Slot> slots_;
};

}  // namespace

std::unique_ptr<AllReduce> make_scheduled_all_reduce(const MessageRoute& route,
                                                     std::span<float> values, Schedule schedule) {
  return std::make_unique<ScheduledAllReduce>(route, values, std::move(schedule));
}

}  // namespace lockstep::comm
