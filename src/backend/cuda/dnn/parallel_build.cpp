// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <thread>

#include "engine_choice.hpp"
#include "lockstep/core/process/thread.hpp"

namespace lockstep::backend::cuda {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The graph of one thread with the engines of cuDNN's heuristics, by name.
class ThreadGraph {
 public:
  explicit ThreadGraph(const EngineSearch& search)
      : target_(search.target.sibling()), graph_(search.make(target_)) {
    if (graph_->seal()) return;
    for (const Heuristics heuristics : {Heuristics::best_first, Heuristics::fallback})
      static_cast<void>(graph_->find_engines(heuristics));
    for (std::size_t i = 0; i < graph_->engines(); ++i) engines_.emplace(graph_->facts(i).name, i);
  }

  void build(std::size_t workspace_limit, BuiltEngine& result) {
    const auto found = engines_.find(result.name);
    if (found == engines_.end()) {
      result.refusal = "cuDNN does not name this engine again";
      return;
    }
    const auto begin = Clock::now();
    if (const auto reason = graph_->build(found->second, workspace_limit))
      result.refusal = *reason;
    else
      result.bytes = graph_->serialise(found->second);
    result.seconds = seconds_since(begin);
    if (result.bytes.empty() && result.refusal.empty())
      result.refusal = "cuDNN cannot serialise this engine";
  }

 private:
  Target target_;  // destroyed after the graph
  std::unique_ptr<OperationGraph> graph_;
  std::map<std::string, std::size_t> engines_;
};

}  // namespace

std::vector<BuiltEngine> build_in_parallel(const EngineSearch& search,
                                           const std::vector<std::string>& names) {
  std::vector<BuiltEngine> results;
  for (const auto& name : names) results.push_back({.name = name, .bytes = {}, .refusal = {}});
  const EngineRules& rules = search.rules;
  const auto begin = Clock::now();
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> has_built = false;
  const auto work = [&] {
    BuiltEngine unused;
    BuiltEngine* current = &unused;
    try {
      ThreadGraph graph(search);
      while (!has_built || seconds_since(begin) < rules.build_seconds) {
        const std::size_t i = next++;
        if (i >= results.size()) return;
        current = &results[i];
        current->was_started = true;
        graph.build(rules.workspace_limit, *current);
        if (!current->bytes.empty()) has_built = true;
        core::report_progress(rules.progress);
      }
    } catch (const std::exception& error) {
      // For example, no memory for a further handle. The other threads continue.
      current->refusal = error.what();
    }
  };
  const std::size_t threads =
      std::min(static_cast<std::size_t>(std::max(rules.build_threads, 1)), names.size());
  std::vector<std::jthread> pool;
  for (std::size_t i = 0; i < threads; ++i)
    pool.push_back(core::start_helper([&](const std::stop_token&) { work(); }));
  pool.clear();  // waits
  return results;
}

}  // namespace lockstep::backend::cuda
