// SPDX-License-Identifier: BSD-3-Clause
#include "engine_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine_candidate.hpp"
#include "engine_trial.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double failed = EngineTrial::failed;

using Candidate = EngineCandidate;

class Selection {
 public:
  Selection(const EngineSearch& search, EngineCache& cache, EngineLog& log)
      : search_(search),
        cache_(cache),
        log_(log),
        graph_(search.make(search.target)),
        built_(search.built) {}

  ChosenEngine run() {
    if (auto reason = graph_->seal()) return {.graph = nullptr, .refusal = *std::move(reason)};
    Candidate* const chosen = choose();
    for (Candidate& candidate : candidates_) {
      candidate.record.is_chosen = &candidate == chosen;
      candidate.record.is_cut_off = is_cut_off_;
      log_.write(candidate.record);
    }
    if (chosen != nullptr) return take(*chosen);
    if (refusal_.empty()) refusal_ = "cuDNN names no engine";
    return {.graph = nullptr, .refusal = refusal_, .is_cut_off = is_cut_off_};
  }

 private:
  const EngineRules& rules() const { return search_.rules; }

  Candidate* choose() {
    if (!selects_by_timing(search_.target, rules())) return choose_untimed();
    find_candidates({Heuristics::best_first, Heuristics::fallback});
    if (const auto known = cache_.find(search_.cache_key)) {
      if (Candidate* const candidate = build_named(known->name)) {
        seconds_ = known->seconds;
        candidate->record.is_cached = true;
        remember_lost_plan(*candidate);
        return candidate;
      }
      built_ = nullptr;  // it has no other engine
    }
    return choose_timed();
  }

  /// Appends the engines that the heuristics return to the candidates, in the order in which to try
  /// them. Engines that break the rules are refused.
  void find_candidates(std::initializer_list<Heuristics> heuristics) {
    const std::size_t known = graph_->engines();
    const auto first = static_cast<std::ptrdiff_t>(candidates_.size());
    for (const Heuristics one : heuristics)
      if (auto reason = graph_->find_engines(one); reason && refusal_.empty())
        refusal_ = *std::move(reason);
    for (std::size_t i = known; i < graph_->engines(); ++i) {
      if (is_candidate(graph_->facts(i).name)) continue;  // of an earlier query
      Candidate candidate = make_candidate(search_, *graph_, i);
      if (!candidate.record.refusal.empty())
        refusal_ = fmt::format("{} {}", candidate.facts.name, candidate.record.refusal);
      candidates_.push_back(std::move(candidate));
    }
    // The first choice of the heuristics can be a slow engine that does not use tensor cores.
    if (search_.nature.has_products && !rules().true_fp32)
      std::stable_partition(candidates_.begin() + first, candidates_.end(),
                            [](const Candidate& one) { return one.facts.tensor_core; });
  }

  bool is_candidate(const std::string& name) const {
    return std::ranges::any_of(candidates_,
                               [&](const Candidate& one) { return one.facts.name == name; });
  }

  void refuse(Candidate& candidate, std::string reason) {
    refusal_ = fmt::format("{}: {}", candidate.facts.name, reason);
    candidate.record.refusal = std::move(reason);
  }

  bool build(Candidate& candidate) {
    if (adopt(candidate)) return candidate.is_built;
    const auto begin = Clock::now();
    auto reason = graph_->build(candidate.index, rules().workspace_limit);
    candidate.record.build_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    core::report_progress(rules().progress);
    candidate.is_built = !reason;
    if (reason)
      refuse(candidate, *std::move(reason));
    else
      candidate.record.workspace_bytes = graph_->workspace_bytes(candidate.index);
    return candidate.is_built;
  }

  /// Uses the result of the pool for the candidate. Returns false if it did not build the engine.
  bool adopt(Candidate& candidate) {
    const BuiltEngine* const result =
        built_ != nullptr ? built_->find(candidate.facts.name) : nullptr;
    if (result == nullptr || !result->was_started) return false;
    candidate.record.build_seconds = result->seconds;
    if (result->bytes.empty()) {
      refuse(candidate, result->refusal);
      return true;
    }
    candidate.restored = graph_->restored(result->bytes, candidate.facts.name);
    if (candidate.restored == nullptr) {
      refuse(candidate, "cuDNN cannot restore the engine from its serialised form");
      return true;
    }
    candidate.bytes = result->bytes;
    candidate.record.workspace_bytes = candidate.restored->workspace_bytes(0);
    candidate.is_built = true;
    core::report_progress(rules().progress);
    return true;
  }

  Candidate* build_first(std::size_t from) {
    for (std::size_t i = from; i < candidates_.size(); ++i)
      if (candidates_[i].record.refusal.empty() && build(candidates_[i])) return &candidates_[i];
    return nullptr;
  }

  /// Builds the engine of that name. Returns null if this version of cuDNN does not return it or
  /// cannot build it.
  Candidate* build_named(const std::string& name) {
    for (Candidate& candidate : candidates_)
      if (candidate.facts.name == name && candidate.record.refusal.empty() && build(candidate))
        return &candidate;
    return nullptr;
  }

  Candidate* choose_untimed() {
    // Query the fallback heuristics only if no engine of the first query can be used, because each
    // query takes time.
    for (const Heuristics heuristics : {Heuristics::best_first, Heuristics::fallback}) {
      const std::size_t known = candidates_.size();
      find_candidates({heuristics});
      if (Candidate* const first = build_first(known)) return first;
    }
    return nullptr;
  }

  Candidate* choose_timed() {
    build_all();
    std::vector<Candidate*> built;
    for (Candidate& candidate : candidates_)
      if (candidate.is_built) built.push_back(&candidate);
    if (built.empty()) built = {build_only_one()};
    if (built.front() == nullptr) return nullptr;
    mark_unbuilt();
    if (built.size() == 1 && !search_.nature.has_alternative) {  // nothing to compare
      if (built.front()->restored != nullptr) remember_plan(*built.front());
      store(*built.front());
      return built.front();
    }
    if (!time(built)) return built.front();
    Candidate* const fastest = *std::ranges::min_element(built, {}, &Candidate::seconds);
    if (fastest->seconds() == failed) {
      refusal_ = "every engine that cuDNN built fails when it runs";
      return nullptr;
    }
    seconds_ = fastest->seconds();
    store(*fastest);
    return fastest;
  }

  bool is_limited() const { return rules().total_seconds > 0; }
  bool is_late() const { return Clock::now() >= search_.deadline; }

  void cut_off(Candidate& candidate, const char* reason) {
    is_cut_off_ = true;
    if (candidate.record.refusal.empty()) candidate.record.refusal = reason;
  }

  /// Builds the engines that satisfy the rules, as far as the time permits.
  void build_all() {
    bool has_built = false;
    for (Candidate& candidate : candidates_) {
      if (candidate.facts.runtime_compiled || !candidate.record.refusal.empty()) continue;
      if (has_built && is_late()) break;
      has_built = build(candidate) || has_built;
    }
    if (built_ == nullptr || !built_->is_listed) build_runtime_compiled();
    if (built_ == nullptr) return;
    if (!built_->is_listed) {  // for example, no memory for a further handle of cuDNN
      is_incomplete_ = true;
      return;
    }
    for (Candidate& candidate : candidates_) {
      if (!candidate.facts.runtime_compiled || !candidate.record.refusal.empty()) continue;
      if (built_->find(candidate.facts.name) == nullptr)
        refuse(candidate, "cuDNN does not name this engine again");
      else
        adopt(candidate);
    }
  }

  void build_runtime_compiled() {
    const auto open = std::ranges::count_if(candidates_, [](const Candidate& candidate) {
      return candidate.facts.runtime_compiled && candidate.record.refusal.empty();
    });
    if (open == 0) return;
    BuildRequest request = build_request(search_, std::nullopt);
    request.expected_engines = static_cast<std::size_t>(open);
    const auto seconds = std::chrono::duration<double>(rules().build_seconds);
    const auto deadline = is_limited()
                              ? search_.deadline
                              : Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds);
    built_here_ = std::move(search_.pool.build({request}, {deadline}).front());
    built_ = &built_here_;
  }

  /// Builds the first engine that can be built, because the pool has built none; none if the time
  /// is over and the program does not need the graph.
  Candidate* build_only_one() {
    if (!(is_limited() && is_late() && search_.nature.has_alternative)) return build_first(0);
    refusal_ = refusal::not_built_in_time;
    for (Candidate& candidate : candidates_) cut_off(candidate, refusal::not_built_in_time);
    return nullptr;
  }

  void mark_unbuilt() {
    if (!is_limited() && (built_ == nullptr || !built_->is_listed)) return;
    for (Candidate& candidate : candidates_) {
      if (candidate.is_built || !candidate.record.refusal.empty()) continue;
      if (is_limited())
        cut_off(candidate, refusal::not_built_in_time);
      else
        candidate.record.refusal = refusal::not_built;
    }
  }

  /// Times the candidates. Returns false if the memory does not suffice.
  bool time(const std::vector<Candidate*>& built) {
    std::size_t workspace = 0;
    for (const Candidate* one : built) workspace = std::max(workspace, one->record.workspace_bytes);
    if (!EngineTrial::fits(search_.target, *graph_, workspace)) return warn_of_memory();
    try {
      EngineTrial trial(search_.target, *graph_, workspace);
      bool has_time = false;
      for (Candidate* const one : built) {
        if (has_time && is_late())
          cut_off(*one, refusal::not_timed);
        else
          try_one(*one, trial);
        has_time = has_time || one->seconds() < failed;
      }
      refuse_outliers(built, trial);
      const Candidate& best = **std::ranges::min_element(built, {}, &Candidate::seconds);
      if (best.seconds() < failed) remember_plan(best, &trial);
      return true;
    } catch (const core::Error& error) {
      if (error.status() != core::ExitStatus::out_of_memory) throw;
      return warn_of_memory();
    }
  }

  /// Compares the outputs of an engine with those of others, and times it. The memory for the code
  /// of an engine may not suffice; the engine is then not used.
  void try_one(Candidate& one, EngineTrial& trial) {
    const OperationGraph& graph = one.restored ? *one.restored : *graph_;
    const std::size_t engine = one.restored ? 0 : one.index;
    try {
      const auto group = trial.compare(graph, engine, tolerance(one));
      const double seconds = group ? trial.seconds(graph, engine) : failed;
      if (seconds < failed) {
        one.group = *group;
        one.record.seconds = seconds;
      } else {
        refuse(one, "fails when it runs: " + trial.refusal());
      }
    } catch (const core::Error& error) {
      const bool is_out_of_memory = error.status() == core::ExitStatus::out_of_memory;
      if (!is_out_of_memory && core::gpu_has_failed()) leave_out(one, error.what());
      if (!is_out_of_memory) throw;
      refuse(one, "the memory does not suffice to load it");
    }
    core::report_progress(rules().progress);
  }

  /// Stores that the engine may not run again, and throws `Error` (internal), because this process
  /// can use the GPU no more.
  [[noreturn]] void leave_out(Candidate& one, const std::string& failure) {
    refuse(one, failure);
    log_.write(one.record);
    cache_.store_faulty(search_.cache_key, one.facts.name);
    core::fail(
        core::ExitStatus::internal,
        fmt::format("cuDNN's engine {} for {}: {}; {}", one.facts.name, search_.graph, failure,
                    cache_.is_on_disk() ? "it is left out from now on, start again"
                                        : "set LOCKSTEP_CACHE_DIR and start twice"));
  }

  double tolerance(const Candidate& one) const {
    return output_tolerance(*graph_, rules().true_fp32, one.facts);
  }

  /// Refuses the engines whose outputs differ from those of most engines. If no two engines agree,
  /// the first one that was tried and whose outputs are finite is kept.
  void refuse_outliers(const std::vector<Candidate*>& built, const EngineTrial& trial) {
    if (trial.groups().empty()) return;
    const std::size_t right = trial.majority();
    const AgreeingEngines& reference = trial.groups()[right];
    // If float16 overflows, no right engine has finite outputs: nothing can be compared.
    const bool overflows = std::ranges::any_of(trial.groups(), &AgreeingEngines::overflows);
    if (!reference.is_finite || (reference.count == 1 && overflows)) return;
    for (Candidate* const one : built) {
      if (one->seconds() == failed || one->group == right) continue;
      one->record.seconds.reset();
      refuse(*one, trial.describe_difference(one->group, right, tolerance(*one)));
    }
  }

  bool warn_of_memory() const {
    core::log_warning(fmt::format(
        "no memory is left for timing the engines of {}: cuDNN's own first choice is used",
        search_.graph));
    return false;
  }

  /// Stores the execution plan of an engine for later runs, if it can be restored from its
  /// serialised form and, with a trial, also runs in this form.
  void remember_plan(const Candidate& candidate, const EngineTrial* trial = nullptr) {
    if (!cache_.is_on_disk() || is_cut_off_ || is_incomplete_) return;
    if (candidate.restored != nullptr && candidate.record.seconds)  // it was timed in this form
      return cache_.store_plan(search_.cache_key, candidate.facts.name, candidate.bytes);
    const auto bytes =
        candidate.restored != nullptr ? candidate.bytes : graph_->serialise(candidate.index);
    if (bytes.empty()) return;
    const auto copy = graph_->restored(bytes, candidate.facts.name);
    if (copy != nullptr && (trial == nullptr || trial->runs(*copy)))
      cache_.store_plan(search_.cache_key, candidate.facts.name, bytes);
  }

  /// Stores the plan of an engine that the cache names, but of which it has lost the plan.
  void remember_lost_plan(const Candidate& candidate) {
    const std::size_t workspace = candidate.record.workspace_bytes;
    if (!cache_.is_on_disk() || !EngineTrial::fits(search_.target, *graph_, workspace)) return;
    try {
      const EngineTrial trial(search_.target, *graph_, workspace);
      remember_plan(candidate, &trial);
    } catch (const core::Error& error) {
      if (error.status() != core::ExitStatus::out_of_memory) throw;
    }
  }

  void store(const Candidate& chosen) {
    if (is_cut_off_ || is_incomplete_) return;
    cache_.store(search_.cache_key, {.name = chosen.facts.name, .seconds = seconds_});
  }

  ChosenEngine take(Candidate& chosen) {
    ChosenEngine result{.graph = nullptr, .seconds = seconds_, .is_cut_off = is_cut_off_};
    if (chosen.restored != nullptr) {
      result.graph = std::move(chosen.restored);
    } else {
      result.engine = chosen.index;
      graph_->keep_only(chosen.index);
      result.graph = std::move(graph_);
    }
    return result;
  }

  const EngineSearch& search_;
  EngineCache& cache_;
  EngineLog& log_;
  std::unique_ptr<OperationGraph> graph_;
  const BuiltGraph* built_;  ///< engines that the pool built; null: none
  BuiltGraph built_here_;
  std::vector<Candidate> candidates_;
  double seconds_ = 0;          ///< of the chosen engine
  std::string refusal_;         ///< the last one
  bool is_cut_off_ = false;     ///< the time limit was reached
  bool is_incomplete_ = false;  ///< the engines that are compiled at run time could not be listed
};

}  // namespace

ChosenEngine choose_engine(const EngineSearch& search, EngineCache& cache, EngineLog& log) {
  return Selection(search, cache, log).run();
}

}  // namespace lockstep::backend::cuda
