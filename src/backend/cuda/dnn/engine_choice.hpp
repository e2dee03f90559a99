// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine_cache.hpp"
#include "lockstep/backend/device.hpp"
#include "lockstep/core/progress.hpp"
#include "operation_graph.hpp"

namespace lockstep::backend::cuda {

/// Constraints on the selection of an engine.
struct EngineRules {
  std::size_t workspace_limit = std::size_t{64} << 20;  ///< bytes
  bool deterministic = false;  ///< results are bitwise reproducible from run to run
  bool true_fp32 = false;      ///< float32 operands of products are not rounded to tf32 or less
  core::ProgressMonitor* progress = nullptr;  ///< notified after each engine that is built or timed
  EngineSelection selection = EngineSelection::timed;
  int build_threads = 1;  ///< host threads that build engines compiled at run time (>= 1)
  /// Limit on the time to build the runtime-compiled engines of one graph, in seconds; a build that
  /// has started is completed. With 8 threads, 3 s are estimated to suffice for most of the 29 to
  /// 36 engines of a batch norm (0.5 to 1 s of processor time each). ResNet-18 has about 35 graphs
  /// with such engines, so that the limit bounds the first run at a batch size to two minutes.
  double build_seconds = 3.0;
  /// Multiprocessors that cuDNN's batch norm uses, so that a kernel of NCCL that runs at the same
  /// time finds free ones; 0: all.
  int batch_norm_multiprocessors = 0;
};

/// Outcome for one candidate of a selection: an engine of a graph, or an implementation of an
/// operation.
struct CandidateRecord {
  std::string graph = {};   ///< key of the graph or of the operation
  std::string engine = {};  ///< name of the engine or of the implementation
  /// "precompiled" or "runtime_compiled" (engine of cuDNN), or "implementation" (of a batch-norm
  /// pass, or variant of a fusion); empty: unknown, because it was restored from the cache.
  std::string kind = {};
  std::optional<double> build_seconds = {};  ///< wall time; none: not built
  std::optional<double> seconds = {};        ///< execution time; none: not timed
  std::size_t workspace_bytes = 0;
  bool narrow_sums = false;  ///< see `EngineFacts`
  std::string refusal = {};  ///< why the candidate cannot be used or was not tried; empty: none
  bool is_chosen = false;
  bool is_cached = false;  ///< taken from the engine cache without a new selection
};

/// File in which each candidate of each selection is a line with a JSON object. The file is
/// complete after each line, so that it can be read after a crash.
class EngineLog {
 public:
  EngineLog() = default;  ///< writes nothing
  /// Creates or truncates `file`; writes nothing if it is empty. Throws `Error` (output) if the
  /// file cannot be written.
  explicit EngineLog(const std::filesystem::path& file);

  /// Appends the record. If that fails, logs a warning once.
  void write(const CandidateRecord& record);

 private:
  std::ofstream stream_;
};

/// Returns whether engines are selected by timing. A choice by timing can differ between runs, and
/// then the rounding differs.
bool selects_by_timing(const Target& target, const EngineRules& rules);

/// Properties of a graph that the rules depend on.
struct GraphNature {
  bool has_products = false;  ///< convolutions: tensor cores affect speed and rounding
  /// The graph contains reductions fused with preceding operations. Runtime-compiled engines
  /// compute them with atomic additions in varying order, but do not have cuDNN's note
  /// NONDETERMINISTIC.
  bool has_fused_sums = false;
  /// Virtual tensors (those inside the graph) have the data type of the feature maps, as cuDNN's
  /// batch-norm engines require. Otherwise they are float32.
  bool rounds_inside = false;
};

/// Returns the rule that the engine violates, as the end of an error message; empty if it satisfies
/// all rules.
std::string broken_rule(const EngineFacts& engine, const EngineRules& rules,
                        const GraphNature& nature);

/// Returns the key of an engine in the cache; it contains everything that the selection depends on.
std::string cache_key(const DeviceInfo& device, const EngineRules& rules, std::string_view graph);

/// Creates a graph for a target with all its operations, not yet sealed. Must support calls from
/// several threads.
using MakeGraph = std::function<std::unique_ptr<OperationGraph>(const Target&)>;

/// A graph for which an engine is to be selected.
struct EngineSearch {
  const Target& target;
  const EngineRules& rules;
  const GraphNature& nature;
  std::string graph;      ///< name of the graph in the engine log
  std::string cache_key;  ///< from `cache_key`
  MakeGraph make;
};

struct ChosenEngine {
  std::unique_ptr<const OperationGraph> graph;  ///< with the built engine; null: none was found
  std::size_t engine = 0;                       ///< all other engines of the graph are released
  double seconds = 0;        ///< execution time, measured now or cached; 0: not timed
  std::string refusal = {};  ///< one-line reason if no engine was found
};

/// Selects an engine for a graph.
/// - By timing (`selects_by_timing`): the fastest engine that satisfies the rules, from `cache` or
///   by measurement. All precompiled engines are candidates, and the runtime-compiled engines that
///   can be built within the limit, in the order of cuDNN's heuristics.
/// - Otherwise: the first engine in this order that satisfies the rules and can be built; engines
///   that use tensor cores come first if the rules allow their rounding.
ChosenEngine choose_engine(const EngineSearch& search, EngineCache& cache, EngineLog& log);

/// Result of building one engine on another thread.
struct BuiltEngine {
  std::string name;
  bool was_started = false;         ///< false: the time limit was reached before
  double seconds = 0;               ///< wall time of the build
  std::vector<std::uint8_t> bytes;  ///< serialised execution plan; empty: it could not be built
  std::string refusal;              ///< reason in one line if it could not be built
};

/// Builds engines of the graph that `search.make` creates, by name, in the given order, on
/// `search.rules.build_threads` threads, until the time limit of the rules is reached. Each thread
/// has its own graph and, if the GPU is present, its own cuDNN handle, because a handle must not be
/// used by several threads at a time. Returns one result per name, in the same order.
std::vector<BuiltEngine> build_in_parallel(const EngineSearch& search,
                                           const std::vector<std::string>& names);

}  // namespace lockstep::backend::cuda
