// SPDX-License-Identifier: BSD-3-Clause
#include "swept_array.hpp"

#include "lockstep/core/timeline.hpp"

namespace lockstep::comm {

void sweep_sums(Communicator& communicator, const SweepOptions& options, const SweptArray& array,
                std::span<const SweptSum> sums, std::span<SweepRow> rows) {
  for (int repeat = -options.warmup; repeat < options.repeats; ++repeat) {
    const auto shift = static_cast<std::size_t>(repeat + options.warmup);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      array.fill(shift);
      communicator.barrier();
      const double begin = core::host_seconds();
      sums[i]();
      const double seconds = core::host_seconds() - begin;
      rows[i].wrong += array.count_wrong(shift, rows[i].type);
      if (repeat >= 0) rows[i].seconds.push_back(seconds);
      core::report_progress(options.progress);
    }
  }
  for (SweepRow& row : rows) {
    communicator.maximum(row.seconds);
    auto wrong = static_cast<double>(row.wrong);
    communicator.sum(std::span<double>(&wrong, 1));
    row.wrong = static_cast<std::uint64_t>(wrong);
  }
}

}  // namespace lockstep::comm
