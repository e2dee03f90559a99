#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/record/checkpoint.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// Tensors of the ranks other than 0 that a checkpoint contains.
enum class RankState : std::int64_t {
  none = 0,        ///< none: every rank has, or will receive, the values of rank 0
  statistics = 1,  ///< the running statistics, which differ (--bn local)
  all = 2,         ///< all tensors: independent replicas (--reducer none)
};
/// Returns which of these tensors a checkpoint of a run with `ranks` ranks contains.
RankState rank_state(const Config& config, int ranks);

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
