#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "lockstep/study/roofline.hpp"

namespace lockstep::study {

RooflineBounds compute_roofline(const backend::Ceilings& measured,
                                const std::vector<TimedOperation>& operations) {
  RooflineBounds bounds;
  bounds.ceilings = measured;
  for (const TimedOperation& operation : operations) {
    const double rate = operation.flops / operation.seconds;
    if (!(rate > bounds.ceilings.flops_per_second)) continue;
    bounds.ceilings.flops_per_second = rate;
    bounds.raised_by = operation.what + ", " + operation.phase;
  }
  std::map<std::tuple<std::string, std::string, std::string>, RooflineRow> rows;
  for (const TimedOperation& operation : operations) {
    const double of_flops = operation.flops / bounds.ceilings.flops_per_second;
    const double of_bytes = operation.bytes / bounds.ceilings.bytes_per_second;
    RooflineRow& row = rows[{operation.what, operation.phase, operation.implementation}];
    row.what = operation.what;
    row.phase = operation.phase;
    row.implementation = operation.implementation;
    row.count += 1;
    row.flops += operation.flops;
    row.bytes += operation.bytes;
    row.seconds += operation.seconds;
    const bool counts_bytes = of_bytes <= operation.seconds;
    row.counts_bytes = row.counts_bytes && counts_bytes;
    row.bound_seconds += std::min(operation.seconds,  // exceeded only by rounding errors
                                  counts_bytes ? std::max(of_flops, of_bytes) : of_flops);
  }
  for (auto& [key, row] : rows) {
    bounds.bound_seconds += row.bound_seconds;
    bounds.rows.push_back(std::move(row));
  }
  std::ranges::sort(bounds.rows, std::greater(), &RooflineRow::seconds);
  return bounds;
}

}  // namespace lockstep::study
