// SPDX-License-Identifier: BSD-3-Clause
#include "bucket_reducer.hpp"

namespace lockstep::comm {

ReducerEntry gather_scatter_reducer() {
  return {.kind = ReducerKind::gather_scatter,
          .help = "after it on rank 0, which sends the sums back",
          .make = make_late_reducer,
          .algorithm = AllReduceAlgorithm::gather_scatter};
}

}  // namespace lockstep::comm
