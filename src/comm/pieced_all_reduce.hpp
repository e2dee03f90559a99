#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <span>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/data_type.hpp"

namespace lockstep::comm {

/// Where an all-reduce sends its messages, and under which tags: `first_tag` and the
/// `tags_per_all_reduce - 1` after it are its own.
struct MessageRoute {
  MPI_Comm comm;
  int rank;
  int ranks;
  int first_tag;
};

/// Pieces of one array that travel at the same time.
inline constexpr std::size_t most_pieces_in_flight = 4;
inline constexpr int tags_per_all_reduce = 2 * static_cast<int>(most_pieces_in_flight);

/// The array is cut into pieces, each piece into one chunk per rank. Every rank sends its chunk k
/// to rank k, which adds up the contributions in rank order and sends the sum to all. Several
/// pieces are on their way at once, so that a link carries contributions and sums in both
/// directions.
std::unique_ptr<AllReduce> make_pieced_all_reduce(const MessageRoute& route,
                                                  std::span<float> values, core::DataType wire);

}  // namespace lockstep::comm
