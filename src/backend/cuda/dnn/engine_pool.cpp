// SPDX-License-Identifier: BSD-3-Clause
#include "engine_pool.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/process/thread.hpp"

namespace lockstep::backend::cuda {
namespace {

using Clock = BuildLimits::Clock;

constexpr std::size_t first_round = 8;  ///< engines of each graph

/// The graph of one thread with the engines of cuDNN's heuristics, by name.
class ThreadGraph {
 public:
  ThreadGraph(const Target& target, const BuildRequest& request) : graph_(request.make(target)) {
    if (graph_->seal()) return;
    for (const Heuristics heuristics : {Heuristics::best_first, Heuristics::fallback})
      static_cast<void>(graph_->find_engines(heuristics));
    for (std::size_t i = 0; i < graph_->engines(); ++i) engines_.emplace(graph_->facts(i).name, i);
  }

  /// Returns the names of the engines that the request wants, in the order of the heuristics.
  std::vector<std::string> names(const BuildRequest& request) const {
    std::vector<std::string> wanted;
    for (std::size_t i = 0; i < graph_->engines(); ++i)
      if (const EngineFacts facts = graph_->facts(i);
          engines_.at(facts.name) == i && request.wants(facts))  // both queries can return it
        wanted.push_back(facts.name);
    return wanted;
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
    result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (result.bytes.empty() && result.refusal.empty())
      result.refusal = "cuDNN cannot serialise this engine";
  }

 private:
  std::unique_ptr<OperationGraph> graph_;
  std::map<std::string, std::size_t> engines_;
};

/// Distributes the engines of all graphs over the threads. All functions may be called by several
/// threads at a time.
class BuildQueue {
 public:
  struct Task {
    std::size_t graph = 0;
    BuiltEngine* engine = nullptr;  ///< null: list the engines of the graph
  };

  BuildQueue(const std::vector<BuildRequest>& requests, const BuildLimits& limits,
             std::vector<BuiltGraph>& results)
      : requests_(requests), limits_(limits), results_(results), states_(requests.size()) {
    order_.resize(requests.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::stable_sort(order_, std::greater{},
                             [&](std::size_t graph) { return requests[graph].expected_engines; });
  }

  /// Returns the next task of a thread that has the graph `current`; waits while another thread
  /// lists engines and there is nothing else to do. Returns std::nullopt if nothing is left.
  std::optional<Task> next(std::optional<std::size_t> current) {
    std::unique_lock lock(mutex_);
    while (true) {
      for (const std::size_t round : {first_round, std::size_t{0} - 1})
        if (const auto task = next_of_round(round, current)) return task;
      const bool is_listing = std::ranges::any_of(
          states_, [](const State& state) { return state.listing == Listing::under_way; });
      if (!is_listing) return std::nullopt;
      listed_.wait(lock);
    }
  }

  void set_listed(std::size_t graph, const std::vector<std::string>& names) {
    const std::lock_guard lock(mutex_);
    results_[graph].is_listed = true;
    for (const auto& name : names) results_[graph].engines.push_back({.name = name});
    states_[graph].listing = Listing::complete;
    listed_.notify_all();
  }

  /// The engines of the graph cannot be listed; no thread tries again.
  void set_failed(std::size_t graph) {
    const std::lock_guard lock(mutex_);
    states_[graph].listing = Listing::failed;
    listed_.notify_all();
  }

  void set_built(std::size_t graph) {
    const std::lock_guard lock(mutex_);
    states_[graph].has_built = true;
  }

 private:
  enum class Listing { open, under_way, complete, failed };
  struct State {
    Listing listing = Listing::open;
    std::size_t next = 0;  ///< engine to be built next
    bool has_built = false;
  };

  bool may_start(std::size_t graph) const {
    const bool needs_one = requests_[graph].is_required && !states_[graph].has_built;
    return needs_one || Clock::now() < limits_.deadline;
  }

  /// Returns the number of engines of the round that no thread has taken.
  std::size_t open_engines(std::size_t graph, std::size_t round) const {
    if (!may_start(graph)) return 0;
    const std::size_t end = std::min(round, results_[graph].engines.size());
    return end - std::min(end, states_[graph].next);
  }

  Task take(std::size_t graph) {
    BuiltEngine& engine = results_[graph].engines[states_[graph].next++];
    engine.was_started = true;
    return {graph, &engine};
  }

  std::optional<Task> next_of_round(std::size_t round, std::optional<std::size_t> current) {
    if (current && open_engines(*current, round) > 0) return take(*current);
    for (const std::size_t graph : order_) {
      if (states_[graph].listing != Listing::open || !may_start(graph)) continue;
      states_[graph].listing = Listing::under_way;
      return Task{graph};
    }
    const auto open = [&](std::size_t graph) { return open_engines(graph, round); };
    const auto most = std::ranges::max_element(order_, {}, open);
    if (most == order_.end() || open(*most) == 0) return std::nullopt;
    return take(*most);
  }

  const std::vector<BuildRequest>& requests_;
  const BuildLimits& limits_;
  std::vector<BuiltGraph>& results_;
  std::vector<State> states_;
  std::vector<std::size_t> order_;  ///< graphs with many engines first
  std::mutex mutex_;
  std::condition_variable listed_;
};

/// The work of one thread. Throws if it cannot create a graph.
void build_engines(const Target& target, const std::vector<BuildRequest>& requests,
                   BuildQueue& queue, core::ProgressMonitor* progress) {
  std::optional<std::size_t> current;
  std::unique_ptr<ThreadGraph> graph;
  while (const auto task = queue.next(current)) {
    const BuildRequest& request = requests[task->graph];
    try {
      if (current != task->graph) {
        graph = nullptr;
        current = task->graph;
        graph = std::make_unique<ThreadGraph>(target, request);
      }
      if (task->engine == nullptr) {
        queue.set_listed(task->graph, graph->names(request));
        continue;
      }
      graph->build(request.workspace_limit, *task->engine);
      if (!task->engine->bytes.empty()) queue.set_built(task->graph);
    } catch (const std::exception& error) {  // for example, no memory
      if (task->engine == nullptr)
        queue.set_failed(task->graph);
      else
        task->engine->refusal = error.what();
      throw;
    }
    core::report_progress(progress);
  }
}

}  // namespace

const BuiltEngine* BuiltGraph::find(const std::string& name) const {
  const auto found = std::ranges::find(engines, name, &BuiltEngine::name);
  return found == engines.end() ? nullptr : &*found;
}

std::vector<BuiltGraph> EnginePool::build(const std::vector<BuildRequest>& requests,
                                          const BuildLimits& limits) {
  std::vector<BuiltGraph> results(requests.size());
  std::size_t engines = 0;
  for (const BuildRequest& request : requests) engines += request.expected_engines;
  const std::size_t threads = std::min(static_cast<std::size_t>(std::max(threads_, 1)), engines);
  if (siblings_.size() < threads) siblings_.resize(threads);
  BuildQueue queue(requests, limits, results);
  const auto work = [&](std::unique_ptr<Target>& sibling) {
    try {
      if (sibling == nullptr)
        sibling = std::make_unique<Target>(target_.sibling());
      else
        sibling->make_current();
      build_engines(*sibling, requests, queue, progress_);
    } catch (const std::exception&) {
      // For example, no memory for a further handle. The other threads continue.
      sibling = nullptr;
    }
  };
  std::vector<std::jthread> pool;
  for (std::size_t i = 0; i < threads; ++i) {
    try {
      pool.push_back(core::start_helper([&, i](const std::stop_token&) { work(siblings_[i]); }));
    } catch (const core::Error&) {  // a limit on the number of threads
      if (pool.empty()) throw;
      break;
    }
  }
  pool.clear();  // waits
  return results;
}

}  // namespace lockstep::backend::cuda
