#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/record/run_file.hpp"
#include "lockstep/train/memory.hpp"
#include "lockstep/train/trainer.hpp"

namespace lockstep::train {

/// One point of the ladder.
struct LadderPoint {
  record::LadderRow row;
  bool has_memory = true;  ///< false: out of memory, nothing was measured
};

/// What ends a ladder.
enum class LadderEnd {
  out_of_memory,  ///< as it should: the limit is found
  out_of_data,    ///< the next batch is larger than the training set
  stopped,        ///< by a signal
};

struct LadderResult {
  std::vector<LadderPoint> points;
  LadderEnd end = LadderEnd::out_of_memory;
  int stop_signal = 0;  ///< number of the signal that stopped it; 0 if none did
};

/// Epoch time at a batch of `config.ladder_start` per rank, then four times that, and so on until
/// memory is full, which is a row of the result and not a failure. Each point trains
/// `config.epochs` epochs (2) and reports the last, or, where `config.steps` is given, that many
/// steps after a first one, extrapolated to the epoch. A point that fails for another reason than
/// memory ends the ladder with that error; the points before it have been reported by then.
/// `limit_bytes`: memory that this rank may take; the smallest limit of all ranks applies.
/// `point_done` is called on every rank. Collective.
LadderResult run_ladder(const Workplace& workplace, const data::DataSizes& sizes,
                        std::uint64_t process_bytes, std::uint64_t limit_bytes,
                        const std::function<void(const LadderPoint&)>& point_done);

}  // namespace lockstep::train
