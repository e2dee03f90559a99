// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline.hpp"

#include <algorithm>
#include <utility>

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

double bytes_of(std::size_t count, MPI_Datatype type) {
  int size = 0;
  check_mpi(MPI_Type_size(type, &size), "MPI_Type_size");
  return static_cast<double>(count) * size;
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
  return route_.first_tag + 2 * static_cast<int>(slot) + tag;
}

void PipelinedAllReduce::receive(std::size_t slot, std::size_t request, void* data,
                                 std::size_t count, MPI_Datatype type, std::size_t source,
                                 int tag) {
  traffic_.received_bytes += bytes_of(count, type);
  check_mpi(
      MPI_Irecv(data, static_cast<int>(count), type, static_cast<int>(source), tag_of(slot, tag),
                route_.comm, &requests_[slot * requests_per_slot_ + request]),
      "MPI_Irecv");
}

void PipelinedAllReduce::send(std::size_t slot, std::size_t request, const void* data,
                              std::size_t count, MPI_Datatype type, std::size_t destination,
                              int tag) {
  traffic_.sent_bytes += bytes_of(count, type);
  check_mpi(
      MPI_Isend(data, static_cast<int>(count), type, static_cast<int>(destination),
                tag_of(slot, tag), route_.comm, &requests_[slot * requests_per_slot_ + request]),
      "MPI_Isend");
}

}  // namespace lockstep::comm
