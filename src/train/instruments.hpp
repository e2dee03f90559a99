// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "event_list.hpp"
#include "lockstep/train/context.hpp"
#include "lockstep/train/run_description.hpp"
#include "replica.hpp"

namespace lockstep::train {

/// Adds the listeners that measure a training to `events`, and what they measure to `description`,
/// which must have the buckets of the run. Without buckets, the clocks of the ranks are not
/// compared. `steps`: number of steps of the longest epoch. `context` and `replica` must outlive
/// the list. Collective: all ranks must call this.
void add_instruments(EventList& events, const TrainingContext& context, Replica& replica,
                     std::int64_t steps, RunDescription& description);

}  // namespace lockstep::train
