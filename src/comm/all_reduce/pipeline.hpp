// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/comm/all_reduce.hpp"
#include "resources.hpp"

namespace lockstep::comm {

/// Partition of an array into pieces, and of each piece into one chunk per rank. All lengths are in
/// elements.
struct PieceLayout {
  std::size_t chunk = 0;      ///< length of a chunk of a full piece
  std::size_t piece = 0;      ///< length of a piece
  std::size_t pieces = 0;     ///< number of pieces
  std::size_t in_flight = 0;  ///< number of pieces in flight at the same time

  /// `chunks`: number of chunks in a piece. `element_bytes`: bytes of an element in communication.
  /// For one chunk or no elements, all members are 0.
  PieceLayout(std::size_t elements, std::size_t chunks, std::size_t element_bytes);

  /// Returns the chunk length of a piece of `piece_elements` elements; the last chunks may be
  /// shorter or empty.
  static std::size_t chunk_of(std::size_t piece_elements, std::size_t chunks);
};

/// Returns the chunks `begin` to `end` - 1 of `piece`, which have `length` elements; the last
/// chunks may be shorter or empty.
template <class T>
std::span<T> chunks_at(std::span<T> piece, std::size_t length, std::size_t begin, std::size_t end) {
  const std::size_t from = std::min(begin * length, piece.size());
  return piece.subspan(from, std::min(end * length, piece.size()) - from);
}

/// An all-reduce that divides the array into pieces and has several of them in flight, so that a
/// link carries messages while the rank sums others. The derived class defines the messages of one
/// piece. Slot s processes the pieces s, s + in_flight, ... on every rank, so that messages with
/// the same tag match in the order of their pieces.
class PipelinedAllReduce : public AllReduce {
 public:
  void start() final;
  bool progress() final;
  Traffic traffic() const final { return traffic_; }

 protected:
  /// `requests_per_slot`: largest number of MPI requests of one piece at the same time.
  PipelinedAllReduce(MessageRoute route, std::span<float> values, const PieceLayout& layout,
                     std::size_t requests_per_slot);

  /// Posts the first messages of `piece`, which slot `slot` processes next. A piece has at least
  /// one message.
  virtual void load(std::size_t slot, std::span<float> piece) = 0;
  /// Is called when a request of a slot has completed; posts the next messages, or calls
  /// `finish_piece` after the last one.
  virtual void handle_completed(std::size_t slot, std::size_t request) = 0;
  /// Loads the next piece of the slot.
  void finish_piece(std::size_t slot);

  /// Posts a message as request `request` of a slot. `tag`: 0 or 1; only messages of the same slot
  /// and with the same tag match.
  void receive(std::size_t slot, std::size_t request, std::span<std::byte> data, std::size_t source,
               int tag = 0);
  void send(std::size_t slot, std::size_t request, std::span<const std::byte> data,
            std::size_t destination, int tag = 0);

  std::size_t rank() const { return route_.rank; }
  std::size_t ranks() const { return route_.ranks; }
  const PieceLayout& layout() const { return layout_; }

 private:
  void load_piece(std::size_t slot, std::size_t number);
  int tag_of(std::size_t slot, int tag) const;

  MessageRoute route_;
  std::span<float> values_;
  PieceLayout layout_;
  std::vector<std::size_t> numbers_;  ///< index of the piece in each slot
  std::size_t requests_per_slot_;
  Requests requests_;
  std::size_t busy_slots_ = 0;
  Traffic traffic_;  ///< of the messages posted since `start`
};

/// A message of this rank to or from rank `peer`, of the chunks `begin` to `end` - 1 of a piece.
struct ChunkMessage {
  enum class Kind {
    send,
    receive,  ///< the received values replace those of this rank
    add,      ///< the received values are added to those of this rank
  };
  Kind kind;
  std::size_t peer, begin, end;
};

/// The steps in which a rank processes each piece of a float32 array. The next step begins when all
/// messages of a step are complete and the values to be added were added, in the order of their
/// messages.
struct Schedule {
  PieceLayout layout;
  std::size_t chunks;  ///< number of chunks of a piece
  std::vector<std::vector<ChunkMessage>> steps;

  /// Returns the largest number of values that one piece receives in a step to be added.
  std::size_t most_added() const;
  std::size_t workspace_bytes() const { return layout.in_flight * most_added() * sizeof(float); }
};

/// Creates an all-reduce that executes `schedule`, which was computed for this rank.
std::unique_ptr<AllReduce> make_scheduled_all_reduce(const MessageRoute& route,
                                                     std::span<float> values, Schedule schedule);

}  // namespace lockstep::comm
