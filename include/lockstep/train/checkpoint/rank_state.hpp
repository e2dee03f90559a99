// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

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

}  // namespace lockstep::train
