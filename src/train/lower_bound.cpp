#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "lockstep/train/floor.hpp"

namespace lockstep::train {

Floor compute_floor(const backend::Ceilings& measured,
                    const std::vector<TimedOperation>& operations) {
  Floor floor;
  floor.ceilings = measured;
  for (const TimedOperation& operation : operations) {
    const double rate = operation.flops / operation.seconds;
    if (!(rate > floor.ceilings.flops_per_second)) continue;
    floor.ceilings.flops_per_second = rate;
    floor.raised_by = operation.what + ", " + operation.phase;
  }
  std::map<std::tuple<std::string, std::string, std::string>, FloorRow> rows;
  for (const TimedOperation& operation : operations) {
    const double of_flops = operation.flops / floor.ceilings.flops_per_second;
    const double of_bytes = operation.bytes / floor.ceilings.bytes_per_second;
    FloorRow& row = rows[{operation.what, operation.phase, operation.implementation}];
    row.what = operation.what;
    row.phase = operation.phase;
    row.implementation = operation.implementation;
    row.count += 1;
    row.flops += operation.flops;
    row.bytes += operation.bytes;
    row.seconds += operation.seconds;
    const bool counts_bytes = of_bytes <= operation.seconds;
    row.counts_bytes = row.counts_bytes && counts_bytes;
    row.floor_seconds += std::min(operation.seconds,  // exceeded only by rounding errors
                                  counts_bytes ? std::max(of_flops, of_bytes) : of_flops);
  }
  for (auto& [key, row] : rows) {
    floor.floor_seconds += row.floor_seconds;
    floor.rows.push_back(std::move(row));
  }
  std::ranges::sort(floor.rows, std::greater(), &FloorRow::seconds);
  return floor;
}

}  // namespace lockstep::train
