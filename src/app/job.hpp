// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "console.hpp"
#include "invocation.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/study/memory.hpp"
#include "lockstep/study/memory_limit.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/pipeline/pipeline.hpp"

namespace lockstep::app {

/// The state that all commands prepare before their work: everything except the images.
struct Job {
  /// Gathers the descriptions of all ranks, resolves the options, opens the device and builds
  /// the graph. Throws `AgreedError`. Warns if a host has more threads than processors. Collective:
  /// all ranks must call this.
  explicit Job(const Invocation& invocation);

  const Invocation& invocation;
  comm::Communicator& communicator = invocation.communicator;
  core::ProgressMonitor* const monitor = invocation.monitor;
  const bool is_first = communicator.rank() == 0;
  const std::uint64_t process_bytes;  ///< resident bytes before anything was loaded
  Options options;                    ///< resolved
  Console console{invocation.output, is_first && !options.output.quiet && !options.output.json};
  std::vector<record::RankInfo> ranks;  ///< of all ranks, on every rank
  data::DataSizes sizes;
  graph::Graph graph{""};
  std::unique_ptr<backend::Backend> backend;
  std::string threads_reason = "--threads";  ///< or `ThreadCount::reason`
  /// Conditions found so far that make measured times or results wrong or not comparable; complete
  /// on rank 0.
  std::vector<std::string> warnings;
};

/// Prints a warning on rank 0, if it is not empty, and adds it to the warnings for the run file.
void add_warning(Job& job, const std::string& warning);

/// Returns how the images of this job are selected and prepared.
data::DataOptions data_options(const Job& job);

/// Returns the memory that each rank may use, the minimum over the ranks: `--memory-limit`, or the
/// free memory of the device if it has its own, or else the share of the rank in the limits of the
/// host (`core::memory_limits`). Throws `AgreedError`. Collective: all ranks must call this.
study::MemoryLimit memory_limit(const Job& job);

/// Returns the estimated memory of a rank of this job. `pipeline` may be null. Throws `AgreedError`
/// (usage) if the device does not support the configuration. Collective: all ranks must call this.
study::MemoryEstimate estimate_memory(const Job& job,
                                      study::MemoryDetail detail = study::MemoryDetail::planned,
                                      const train::Pipeline* pipeline = nullptr);

/// Returns the header of the run file of this job. `further_warnings`: those that are
/// neither of the job nor of the communicator.
record::RunHeader run_header(const Job& job, std::span<const std::string> further_warnings = {});

/// Opens the run file on rank 0; empty if there is none. Throws `AgreedError`. Collective: all
/// ranks must call this.
std::optional<record::RunFile> open_run_file(const Job& job);

/// Runs `work`, which measures and returns the status of the run, and completes the run file with
/// this status or with the error of `work`. Except on GPUs, adds the largest share of the time for
/// which a rank lacked processors to the results, and warns on rank 0 if it spoils the times.
/// `file`: of `open_run_file`; `work` writes its table. Collective: all ranks must call this.
void record_measurement(const Job& job, std::optional<record::RunFile>& file,
                        const std::function<record::RunStatus()>& work);

/// Returns whether --overwrite is given.
record::OverwriteMode overwrite_mode(const OutputOptions& options);

/// Throws `AgreedError` (output) if the run file (--output) or the trace (--trace) cannot be
/// written. Collective: all ranks must call this.
void check_output(const Job& job);

/// With --json, prints one object on rank 0, also on a silent console: command, options, ranks and
/// versions of the job, and the members of `results`. Unknown numbers are null.
void print_json(Job& job, const nlohmann::json& results);

/// Prints the output of a command that ends because of `--dry-run`; returns `done`.
core::ExitStatus end_dry_run(Job& job);

}  // namespace lockstep::app
