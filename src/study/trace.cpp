// SPDX-License-Identifier: BSD-3-Clause
#include "trace.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace lockstep::study {

namespace {

constexpr double microseconds = 1e6;

/// Assigns events to threads so that no two events of a thread overlap: viewers draw overlapping
/// events of a thread as nested calls.
class Tracks {
 public:
  explicit Tracks(int rank) : rank_(rank) {}

  /// Returns the thread of an event. Events must be passed in the order of their begins.
  int place(const TraceEvent& event) {
    std::vector<Lane>& lanes = tracks_[event.track];
    const auto free =
        std::ranges::find_if(lanes, [&](const Lane& lane) { return lane.end <= event.begin; });
    if (free != lanes.end()) {
      free->end = event.end;
      return free->thread;
    }
    const int thread = threads_++;
    lanes.push_back({thread, event.end});
    const std::string name =
        lanes.size() == 1 ? event.track : fmt::format("{} ({})", event.track, lanes.size());
    names_.push_back(describe("thread_name", thread, name));
    names_.push_back({{"ph", "M"},
                      {"name", "thread_sort_index"},
                      {"pid", rank_},
                      {"tid", thread},
                      {"args", {{"sort_index", thread}}}});
    return thread;
  }

  nlohmann::json describe(const char* what, int thread, std::string_view name) const {
    return {
        {"ph", "M"}, {"name", what}, {"pid", rank_}, {"tid", thread}, {"args", {{"name", name}}}};
  }
  const std::vector<nlohmann::json>& names() const { return names_; }

 private:
  struct Lane {
    int thread = 0;
    double end = 0;
  };
  int rank_;
  int threads_ = 0;
  std::map<std::string, std::vector<Lane>> tracks_;
  std::vector<nlohmann::json> names_;
};

}  // namespace

std::string trace_of_rank(int rank, std::string_view place, std::span<const TraceEvent> events) {
  std::vector<const TraceEvent*> sorted;
  for (const TraceEvent& event : events) sorted.push_back(&event);
  std::ranges::stable_sort(sorted, {}, [](const TraceEvent* event) { return event->begin; });
  Tracks tracks(rank);
  std::vector<nlohmann::json> items{
      tracks.describe("process_name", 0, fmt::format("rank {} ({})", rank, place))};
  for (const TraceEvent* event : sorted) {
    nlohmann::json item = {{"ph", "X"},
                           {"name", event->name},
                           {"cat", event->category},
                           {"pid", rank},
                           {"tid", tracks.place(*event)},
                           {"ts", event->begin * microseconds},
                           {"dur", (event->end - event->begin) * microseconds}};
    for (const auto& [name, text] : event->details) item["args"][name] = text;
    items.push_back(std::move(item));
  }
  items.insert(items.end(), tracks.names().begin(), tracks.names().end());
  std::string text;
  for (const nlohmann::json& item : items)
    text += (text.empty() ? "" : ",\n") +
            item.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text;
}

std::string join_traces(std::span<const std::string> ranks) {
  return fmt::format("{{\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [\n{}\n]}}\n",
                     fmt::join(ranks, ",\n"));
}

}  // namespace lockstep::study
