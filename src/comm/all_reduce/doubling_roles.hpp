// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <bit>
#include <cstddef>

namespace lockstep::comm {

/// The roles of the ranks in recursive doubling. P = `power` of them, the largest power of two, sum
/// the array. If there are more ranks, the first 2 (N - P) form pairs: the even rank of a pair
/// sends its values to the odd one before the sum and receives the sums after it.
struct DoublingRoles {
  std::size_t power, pairs;

  explicit DoublingRoles(std::size_t ranks) : power(std::bit_floor(ranks)), pairs(ranks - power) {}
  bool is_paired(std::size_t rank) const { return rank < 2 * pairs; }
  /// Returns the index of a rank among those that sum, and its inverse.
  std::size_t index_of(std::size_t rank) const { return is_paired(rank) ? rank / 2 : rank - pairs; }
  std::size_t rank_of(std::size_t index) const {
    return index < pairs ? 2 * index + 1 : index + pairs;
  }
};

}  // namespace lockstep::comm
