#pragma once

#include <cstddef>
#include <limits>

#include "lockstep/record/run_file.hpp"
#include "lockstep/train/timing/summary.hpp"

namespace lockstep::train {

/// Time of all-reduces of several steps, mean over the ranks, in seconds; NaN if the epoch lacks a
/// measurement. During `waiting` at least one bucket of a rank was in progress, but only buckets
/// that another rank had not started yet. `in_progress` is the time during which at
/// least one bucket was in progress; `transfer.low` is the part of it that was no computation
/// between the calls of the all-reduces.
struct AllReduceSplit {
  double waiting = std::numeric_limits<double>::quiet_NaN();
  double in_progress = std::numeric_limits<double>::quiet_NaN();
  TimeBounds transfer;  ///< contains the error of the clocks
};

/// Returns the split of the all-reduces of `epoch`, which has `ranks` ranks, from its step `first`
/// on (docs/analysis.md, "Waiting and transfer"). The clocks of the ranks are compared with the
/// offsets that were measured before and after the epoch, and with linear interpolation between
/// them.
AllReduceSplit split_all_reduce(const record::EpochRecord& epoch, std::size_t ranks,
                                std::size_t first);

}  // namespace lockstep::train
