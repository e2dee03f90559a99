// SPDX-License-Identifier: BSD-3-Clause
#include "trace.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace lockstep::study {
namespace {

using nlohmann::json;

TraceEvent event(const char* name, const char* track, double begin, double end) {
  return {.name = name, .category = "test", .track = track, .begin = begin, .end = end};
}

json parse(const std::vector<std::string>& ranks) { return json::parse(join_traces(ranks)); }

std::vector<json> events_of(const json& trace, const std::string& kind) {
  std::vector<json> found;
  for (const json& item : trace["traceEvents"])
    if (item["ph"] == kind) found.push_back(item);
  return found;
}

/// Returns the name of each thread of a rank.
std::map<int, std::string> threads_of(const json& trace, int rank) {
  std::map<int, std::string> names;
  for (const json& item : events_of(trace, "M"))
    if (item["name"] == "thread_name" && item["pid"] == rank)
      names[item["tid"]] = item["args"]["name"];
  return names;
}

TEST(Trace, HasTheEventsInMicroseconds) {
  const std::vector<TraceEvent> events{event("conv1 forward", "compute", 1, 1.5)};
  const json trace = parse({trace_of_rank(3, "node1, CPU", events)});
  const auto found = events_of(trace, "X");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["name"], "conv1 forward");
  EXPECT_EQ(found[0]["pid"], 3);
  EXPECT_DOUBLE_EQ(found[0]["ts"], 1e6);
  EXPECT_DOUBLE_EQ(found[0]["dur"], 0.5e6);
}

TEST(Trace, HasOneNamedProcessPerRankAndOneNamedTrackPerStream) {
  const std::vector<TraceEvent> events{
      event("a", "compute", 0, 1), event("b", "communication", 0, 1), event("c", "compute", 1, 2)};
  const json trace = parse({trace_of_rank(0, "here", events), trace_of_rank(1, "there", events)});
  std::set<std::string> processes;
  for (const json& item : events_of(trace, "M"))
    if (item["name"] == "process_name") processes.insert(item["args"]["name"]);
  EXPECT_EQ(processes, (std::set<std::string>{"rank 0 (here)", "rank 1 (there)"}));
  for (const int rank : {0, 1}) {
    std::set<std::string> names;
    for (const auto& [thread, name] : threads_of(trace, rank)) names.insert(name);
    EXPECT_EQ(names, (std::set<std::string>{"compute", "communication"})) << rank;
  }
}

// A viewer draws events of one thread that overlap as nested calls.
TEST(Trace, OverlappingEventsAreOnDifferentTracks) {
  const std::vector<TraceEvent> events{event("first", "communication", 0, 2),
                                       event("second", "communication", 1, 3),
                                       event("third", "communication", 2, 4)};
  const json trace = parse({trace_of_rank(0, "here", events)});
  const auto threads = threads_of(trace, 0);
  std::map<std::string, std::string> track;
  for (const json& item : events_of(trace, "X")) track[item["name"]] = threads.at(item["tid"]);
  EXPECT_EQ(track["first"], "communication");
  EXPECT_EQ(track["second"], "communication (2)");
  EXPECT_EQ(track["third"], "communication");
}

TEST(Trace, IsValidJsonWithAnyName) {
  const std::vector<TraceEvent> events{event("void f<\"x\">(\\)\n\xff", "compute", 0, 1)};
  EXPECT_EQ(events_of(parse({trace_of_rank(0, "a \"b\"", events)}), "X").size(), 1u);
}

}  // namespace
}  // namespace lockstep::study
