// SPDX-License-Identifier: BSD-3-Clause
#include "engine_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cudnn_frontend/thirdparty/nlohmann/json.hpp>
#include <limits>
#include <utility>

#include "../device/kernel_stopwatch.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double failed = std::numeric_limits<double>::infinity();

/// An engine of a graph during the selection.
struct Candidate {
  std::size_t index = 0;  ///< in the graph of the selection
  EngineFacts facts;
  CandidateRecord record;
  /// Runtime-compiled engines are restored from `bytes` to their own graph, as its engine 0; null:
  /// the engine is in the graph of the selection.
  std::unique_ptr<OperationGraph> restored = nullptr;
  std::vector<std::uint8_t> bytes = {};
  bool is_built = false;

  double seconds() const { return record.seconds.value_or(failed); }
};

/// Times the engines of one graph on the GPU, with random inputs. The constructor allocates the
/// tensors and the workspace; it throws `Error` (out_of_memory) if the memory does not suffice.
class EngineTrial {
 public:
  /// `workspace_bytes`: the largest workspace of the engines.
  EngineTrial(const Target& target, const OperationGraph& graph, std::size_t workspace_bytes)
      : target_(target),
        stopwatch_(target),
        workspace_(core::device_buffer(workspace_bytes, "the workspace of engines under test")) {
    for (const auto& port : graph.ports()) {
      tensors_.push_back(random_buffer(port.bytes, port.type));
      bindings_.push_back({port.uid, tensors_.back().data()});
    }
  }

  static std::size_t tensor_bytes(const OperationGraph& graph) {
    std::size_t bytes = 0;
    for (const auto& port : graph.ports()) bytes += port.bytes;
    return bytes;
  }

  /// Returns the median execution time of several runs of a built engine in seconds; `failed` if
  /// cuDNN fails.
  double seconds(const OperationGraph& graph, std::size_t engine) const {
    return stopwatch_.seconds(tensor_bytes(graph), [&] {
      return !graph.run(engine, bindings_, workspace_.data()).has_value();
    });
  }

  /// Runs engine 0 of a restored graph. Returns false if cuDNN fails to enqueue it.
  bool runs(const OperationGraph& restored) const {
    if (restored.run(0, bindings_, workspace_.data())) return false;
    check_cuda(cudaStreamSynchronize(target_.stream()), "trying a restored engine");
    return true;
  }

 private:
  const Target& target_;
  KernelStopwatch stopwatch_;
  std::vector<core::Buffer> tensors_;
  std::vector<Binding> bindings_;
  core::Buffer workspace_;
};

class Selection {
 public:
  Selection(const EngineSearch& search, EngineCache& cache, EngineLog& log)
      : search_(search), cache_(cache), log_(log), graph_(search.make(search.target)) {}

  ChosenEngine run() {
    if (auto reason = graph_->seal()) return {.graph = nullptr, .refusal = *std::move(reason)};
    Candidate* const chosen = choose();
    for (Candidate& candidate : candidates_) {
      candidate.record.is_chosen = &candidate == chosen;
      log_.write(candidate.record);
    }
    if (chosen != nullptr) return take(*chosen);
    if (refusal_.empty()) refusal_ = "cuDNN names no engine";
    return {.graph = nullptr, .refusal = refusal_};
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
        return candidate;
      }
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
      Candidate candidate{.index = i, .facts = graph_->facts(i), .record = {}};
      candidate.record = {
          .graph = search_.graph,
          .engine = candidate.facts.name,
          .kind = candidate.facts.runtime_compiled ? "runtime_compiled" : "precompiled",
          .narrow_sums = candidate.facts.narrow_sums};
      if (const auto broken = broken_rule(candidate.facts, rules(), search_.nature);
          !broken.empty()) {
        candidate.record.refusal = broken;
        refusal_ = fmt::format("{} {}", candidate.facts.name, broken);
      }
      candidates_.push_back(std::move(candidate));
    }
    // The first choice of the heuristics can be a slow engine that does not use tensor cores.
    if (search_.nature.has_products && !rules().true_fp32)
      std::stable_partition(candidates_.begin() + first, candidates_.end(),
                            [](const Candidate& one) { return one.facts.tensor_core; });
  }

  void refuse(Candidate& candidate, std::string reason) {
    refusal_ = fmt::format("{}: {}", candidate.facts.name, reason);
    candidate.record.refusal = std::move(reason);
  }

  bool build(Candidate& candidate) {
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
    for (Candidate& candidate : candidates_)
      if (!candidate.facts.runtime_compiled && candidate.record.refusal.empty()) build(candidate);
    build_runtime_compiled();
    std::vector<Candidate*> built;
    for (Candidate& candidate : candidates_)
      if (candidate.is_built) built.push_back(&candidate);
    if (built.empty()) built = {build_first(0)};
    if (built.front() == nullptr) return nullptr;
    if (built.size() == 1) {  // nothing to compare
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

  void build_runtime_compiled() {
    std::vector<Candidate*> open;
    std::vector<std::string> names;
    for (Candidate& candidate : candidates_) {
      if (!candidate.facts.runtime_compiled || !candidate.record.refusal.empty()) continue;
      open.push_back(&candidate);
      names.push_back(candidate.facts.name);
    }
    if (open.empty()) return;
    auto results = build_in_parallel(search_, names);
    // If no thread could open cuDNN, `choose_timed` builds an engine with the handle of the target.
    if (std::ranges::none_of(results, &BuiltEngine::was_started)) return;
    for (std::size_t i = 0; i < open.size(); ++i) adopt(*open[i], std::move(results[i]));
  }

  void adopt(Candidate& candidate, BuiltEngine result) {
    if (!result.was_started) {
      candidate.record.refusal = "not built: the time limit of run-time compilation was reached";
      return;
    }
    candidate.record.build_seconds = result.seconds;
    if (result.bytes.empty()) return refuse(candidate, std::move(result.refusal));
    candidate.restored = graph_->restored(result.bytes, candidate.facts.name);
    if (candidate.restored == nullptr)
      return refuse(candidate, "cuDNN cannot restore the engine from its serialised form");
    candidate.bytes = std::move(result.bytes);
    candidate.record.workspace_bytes = candidate.restored->workspace_bytes(0);
    candidate.is_built = true;
  }

  /// Times the candidates. Returns false if the memory does not suffice.
  bool time(const std::vector<Candidate*>& built) {
    std::size_t workspace = 0;
    for (const Candidate* one : built) workspace = std::max(workspace, one->record.workspace_bytes);
    if (!KernelStopwatch::fits(search_.target, workspace + EngineTrial::tensor_bytes(*graph_)))
      return warn_of_memory();
    try {
      const EngineTrial trial(search_.target, *graph_, workspace);
      for (Candidate* const one : built) time_one(*one, trial);
      const Candidate& best = **std::ranges::min_element(built, {}, &Candidate::seconds);
      if (best.seconds() < failed) remember_plan(best, &trial);
      return true;
    } catch (const core::Error& error) {
      if (error.status() != core::ExitStatus::out_of_memory) throw;
      return warn_of_memory();
    }
  }

  /// The memory for the code of an engine may not suffice; the engine is then not used.
  void time_one(Candidate& one, const EngineTrial& trial) {
    try {
      const double seconds =
          one.restored ? trial.seconds(*one.restored, 0) : trial.seconds(*graph_, one.index);
      if (seconds < failed)
        one.record.seconds = seconds;
      else
        refuse(one, "fails when it runs");
    } catch (const core::Error& error) {
      if (error.status() != core::ExitStatus::out_of_memory) throw;
      refuse(one, "the memory does not suffice to load it");
    }
    core::report_progress(rules().progress);
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
    if (!cache_.is_on_disk()) return;
    if (candidate.restored != nullptr)  // it was timed in this form
      return cache_.store_plan(search_.cache_key, candidate.facts.name, candidate.bytes);
    const auto bytes = graph_->serialise(candidate.index);
    if (bytes.empty()) return;
    const auto copy = graph_->restored(bytes, candidate.facts.name);
    if (copy != nullptr && (trial == nullptr || trial->runs(*copy)))
      cache_.store_plan(search_.cache_key, candidate.facts.name, bytes);
  }

  void store(const Candidate& chosen) {
    cache_.store(search_.cache_key, {.name = chosen.facts.name, .seconds = seconds_});
  }

  ChosenEngine take(Candidate& chosen) {
    ChosenEngine result{.graph = nullptr, .seconds = seconds_};
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
  std::vector<Candidate> candidates_;
  double seconds_ = 0;   ///< of the chosen engine
  std::string refusal_;  ///< the last one
};

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace

EngineLog::EngineLog(const std::filesystem::path& file) {
  if (file.empty()) return;
  stream_.open(file, std::ios::trunc);
  if (!stream_)
    core::fail(core::ExitStatus::output,
               fmt::format("--engine-log: {} cannot be written; name a file in an existing folder "
                           "with write permission",
                           file.string()));
}

void EngineLog::write(const CandidateRecord& record) {
  if (!stream_.is_open()) return;
  const nlohmann::ordered_json line = {{"graph", record.graph},
                                       {"engine", record.engine},
                                       {"kind", or_null(record.kind)},
                                       {"build_seconds", or_null(record.build_seconds)},
                                       {"seconds", or_null(record.seconds)},
                                       {"workspace_bytes", record.workspace_bytes},
                                       {"refusal", or_null(record.refusal)},
                                       {"chosen", record.is_chosen},
                                       {"cached", record.is_cached},
                                       {"narrow_sums", record.narrow_sums}};
  // cuDNN's messages need not be valid UTF-8.
  stream_ << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
          << std::endl;
  if (stream_) return;
  stream_.close();
  core::log_warning("--engine-log: writing failed, so the file is incomplete");
}

bool selects_by_timing(const Target& target, const EngineRules& rules) {
  return target.is_present() && !rules.deterministic && rules.selection == EngineSelection::timed;
}

std::string broken_rule(const EngineFacts& engine, const EngineRules& rules,
                        const GraphNature& nature) {
  if (rules.selection == EngineSelection::quick && engine.runtime_compiled)
    return "is compiled at run time, which --engines quick excludes";
  if (rules.deterministic && engine.nondeterministic) return "is not deterministic";
  if (rules.deterministic && nature.has_fused_sums && engine.runtime_compiled)
    return "sums with atomics, in no fixed order";
  if (rules.true_fp32 && nature.has_products && (engine.tensor_core || engine.down_converts))
    return "rounds its inputs to less than fp32";
  return {};
}

std::string cache_key(const DeviceInfo& device, const EngineRules& rules, std::string_view graph) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) static_cast<void>(cudaGetLastError());
  return fmt::format("{} | sm {} x {} | cuDNN {} | driver {} | {} B{}{}{} | {}", device.name,
                     device.compute_capability, device.multiprocessors, cudnnGetVersion(), driver,
                     rules.workspace_limit, rules.deterministic ? " deterministic" : "",
                     rules.true_fp32 ? " true-fp32" : "",
                     rules.batch_norm_multiprocessors > 0
                         ? fmt::format(" batch-norm-sms{}", rules.batch_norm_multiprocessors)
                         : "",
                     graph);
}

ChosenEngine choose_engine(const EngineSearch& search, EngineCache& cache, EngineLog& log) {
  return Selection(search, cache, log).run();
}

}  // namespace lockstep::backend::cuda
