// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::study {

/// An event of a trace. Times are in seconds since the origin of the trace.
struct TraceEvent {
  std::string name;
  std::string_view category;  ///< "step", "step part", "operation", "communication"
  /// Track of the rank to which the event belongs: "steps", "compute", "communication". Events
  /// that overlap are placed on further tracks: "communication (2)".
  std::string track;
  double begin = 0, end = 0;
  /// Further properties, shown when the event is selected: names and texts.
  std::vector<std::pair<std::string, std::string>> details{};
};

/// Returns the events of one rank as elements of a JSON array, separated by commas, in the
/// trace-event format: complete events ("X") in microseconds, with the rank as process and one
/// thread per track, and the names of both. `place`: host and device of the rank.
std::string trace_of_rank(int rank, std::string_view place, std::span<const TraceEvent> events);

/// Returns the trace of all ranks as a JSON object, from their results of `trace_of_rank`.
std::string join_traces(std::span<const std::string> ranks);

}  // namespace lockstep::study
