// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/record/run_records.hpp"
#include "lockstep/study/memory.hpp"
#include "lockstep/study/memory_limit.hpp"
#include "lockstep/study/options.hpp"
#include "lockstep/train/context.hpp"

namespace lockstep::study {

/// Reason for the end of a ladder.
enum class LadderEnd {
  out_of_memory,  ///< expected end: the next batch does not fit in memory
  out_of_data,    ///< the next batch is larger than the training set
  stopped,        ///< by a signal
};

struct LadderResult {
  std::vector<record::LadderRow> points;  ///< one per batch
  LadderEnd end = LadderEnd::out_of_memory;
  int stop_signal = 0;  ///< number of the signal that stopped it; 0 if none did
};

/// Measures the epoch time as a function of the batch per rank: `options.start` first, then
/// always four times the previous batch, until a batch does not fit in memory, is larger than the
/// training set, or a signal arrives. A batch that does not fit in memory is a row of the result
/// with the status "out_of_memory", not an error. Each point trains the epochs of the configuration
/// (2 by default) and reports the last one; or, if the steps are given, it trains one step more
/// than that, excludes the first one, and scales the time to an epoch.
///
/// An error other than a lack of memory ends the ladder and is thrown; all previous points have
/// been reported to `point_done` by then. `process_bytes`: as in `estimate_memory`. `limit`: the
/// smallest of all ranks applies. `point_done` is called on every rank. Collective: all ranks must
/// call this.
LadderResult run_ladder(const train::TrainingContext& context, const LadderOptions& options,
                        const data::DataSizes& sizes, std::uint64_t process_bytes,
                        const MemoryLimit& limit,
                        const std::function<void(const record::LadderRow&)>& point_done);

}  // namespace lockstep::study
