// SPDX-License-Identifier: BSD-3-Clause
#include "bucket_reducer.hpp"

namespace lockstep::comm {

ReducerEntry allreduce_reducer() {
  return {
      .kind = ReducerKind::allreduce, .help = "after the backward pass", .make = make_late_reducer};
}

}  // namespace lockstep::comm
