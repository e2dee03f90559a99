// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/record/run_records.hpp"
#include "lockstep/train/run_summary.hpp"

namespace lockstep::train {

/// Computes the summary of one process from the records of its epochs, in their order.
class Summariser {
 public:
  /// `images_per_epoch`: the images of a complete epoch over all ranks.
  Summariser(int ranks, std::int64_t steps_per_epoch, std::int64_t images_per_epoch);

  /// Adds an epoch; `epoch.epoch` is counted from 1.
  void add(const record::EpochRecord& epoch);
  /// Returns the summary of the epochs that were added.
  const RunSummary& summary() const { return summary_; }

 private:
  /// Rules that select the timed epoch, in ascending order of preference.
  enum class Rule {
    none,
    longest,         ///< if there is no complete epoch: the longest one
    first_complete,  ///< the complete epoch that contains the process's first step
    complete,        ///< the earliest complete epoch that does not contain that step
  };

  Rule rule_of(const record::EpochRecord& epoch) const;
  void time(const record::EpochRecord& epoch);

  std::size_t ranks_;
  Rule rule_ = Rule::none;  ///< rule that selected the timed epoch
  std::size_t epochs_ = 0;  ///< number of epochs with steps
  std::size_t length_ = 0;  ///< steps of the timed epoch
  RunSummary summary_;
};

}  // namespace lockstep::train
