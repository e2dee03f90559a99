// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/record/checkpoint.hpp"
#include "lockstep/train/checkpoint/rank_state.hpp"

namespace lockstep::train {

/// Gathers tensors of the ranks other than 0 on rank 0 for a checkpoint, and distributes them after
/// a resume. The file contains them as /rank_R/GROUP.NAME, for example
/// /rank_1/state.bn1.running_mean.
class ReplicaStates {
 public:
  /// `own`: views of this rank's tensors that differ between ranks, the same list on every rank.
  ReplicaStates(std::span<const record::Tensor> own, comm::Communicator& communicator);

  /// Copies the values of all ranks to rank 0. Collective: all ranks must call this.
  void gather();

  /// Returns views of the values of ranks 1, 2, ... on rank 0, to be written to a file or filled
  /// from one; empty on the other ranks.
  std::vector<record::Tensor> tensors();

  /// Sends each rank the values that rank 0 has for it. Collective: all ranks must call this.
  void distribute();

 private:
  std::vector<record::Tensor> own_;
  comm::Communicator& communicator_;
  std::size_t elements_ = 0;                ///< total number of elements of `own_`
  std::vector<std::vector<float>> others_;  ///< on rank 0: of rank 1, 2, ...; empty until needed
};

}  // namespace lockstep::train
