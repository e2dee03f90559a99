// SPDX-License-Identifier: BSD-3-Clause
#include "../all_reduce/gather_scatter.hpp"
#include "bucket_reducer.hpp"

namespace lockstep::comm {

/// Only the gradients: rank 0 collects them. The training step distributes inputs and parameters.
ReducerEntry parameter_server_reducer() {
  return {.kind = ReducerKind::parameter_server,
          .help =
              "after it on rank 0, which alone reads the data and updates, as "
              "DataParallel of PyTorch",
          .make = make_late_reducer,
          .algorithm = AllReduceAlgorithm::gather_scatter,
          .placement = SumPlacement::rank_0,
          .make_sum = [](AllReduceResources& resources, std::span<float> values, std::span<float>,
                         const ReducerOptions&) {
            return make_root_all_reduce(resources.route(), values, RootStages::gather);
          }};
}

}  // namespace lockstep::comm
