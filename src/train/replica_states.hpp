#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/record/checkpoint.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// Which tensors of the ranks other than 0 a checkpoint contains.
enum class RankState : std::int64_t {
  none = 0,        ///< every rank has, or will receive, the values of rank 0
  statistics = 1,  ///< the running statistics differ (--bn local)
  all = 2,         ///< everything differs: independent replicas (--reducer none)
};
RankState rank_state(const Config& config, int ranks);

/// Tensors of the ranks other than 0, brought to rank 0 for a checkpoint and back. The file has
/// them as /rank_R/GROUP.NAME, for example /rank_1/state.bn1.running_mean.
class ReplicaStates {
 public:
  /// `own`: views of this rank's tensors that differ between ranks, the same list on every rank.
  ReplicaStates(std::span<const record::Tensor> own, comm::Communicator& communicator);

  /// Copies the values of all ranks to rank 0. Collective.
  void gather();

  /// Views of the values of ranks 1, 2, ... on rank 0, to be written or filled; none elsewhere.
  std::vector<record::Tensor> tensors();

  /// Sends each rank the values that rank 0 holds for it. Collective.
  void distribute();

 private:
  std::vector<record::Tensor> own_;
  comm::Communicator& communicator_;
  std::size_t elements_ = 0;                ///< of `own_` together
  std::vector<std::vector<float>> others_;  ///< on rank 0, of rank 1, 2, ...; empty until needed
};

}  // namespace lockstep::train
