// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "resources.hpp"

namespace lockstep::comm {

/// In-place sum of small float32 arrays over all ranks, for results that must be the same bits in
/// every run. MPI_Allreduce does not permit that: an MPI library may change its algorithm, and with
/// it the order of summation, according to the calls before (MPICH 5 does after four calls). These
/// sums use recursive doubling, in an order that depends on the number of ranks only: for 4 ranks
/// (0 + 1) + (2 + 3), for 3 ranks (0 + 1) + 2. All ranks get the same bits.
class FixedOrderSum {
 public:
  /// `resources` must outlive this object. Collective.
  explicit FixedOrderSum(AllReduceResources& resources);

  /// Replaces `values` by their sums. All ranks must pass the same number of values. Collective.
  void run(std::span<float> values);

 private:
  /// Adds the values of `peer`, which adds those of this rank.
  void exchange(std::span<float> values, std::size_t peer);

  std::optional<MessageRoute> route_;  ///< empty if there is one rank
  std::vector<float> received_;
};

}  // namespace lockstep::comm
