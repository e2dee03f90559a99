// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/record/output_kind.hpp"
#include "lockstep/record/run_records.hpp"

namespace lockstep::record {

/// Returns an identifier for a new run. It consists of time, host name, process id and, under
/// Slurm, the job.
std::string new_run_id();

enum class RunStatus { complete, preempted, failed };

/// The HDF5 run file (format "lockstep-run", version 3; docs/run-file.md). One rank writes it
/// during the run, as PATH.partial. The file is closed after each epoch and each point of a batch
/// ladder, so a killed run leaves its measurements. `finish` renames the file to PATH; until then
/// an existing file at PATH is not changed. Every function that writes throws `Error` (output) on
/// failure.
class RunFile {
 public:
  /// Creates PATH.partial. If a run that ended early has left a file of this name, that file is
  /// renamed and kept. Throws `Error` (output) if `path` exists and `mode` is refuse, if
  /// another process uses PATH.partial, or if the file cannot be written.
  RunFile(const std::filesystem::path& path, OverwriteMode mode, const RunHeader& header);
  ~RunFile();
  RunFile(RunFile&&) noexcept;
  RunFile& operator=(RunFile&&) noexcept;

  /// Appends the steps, results and telemetry of an epoch. Samples are written in whole chunks; the
  /// rest follows with the next epoch or with `finish`. Throws `Error` (internal) if the arrays do
  /// not fit the ranks and buckets of the header, or if a measurement is not in the schema of the
  /// run file.
  void append(const EpochRecord& epoch);
  /// Appends a point of the batch ladder.
  void append(const LadderRow& point);

  /// Writes all rows of an all-reduce sweep. Can be called at most once per file.
  void write_allreduce(const std::vector<AllReduceRow>& rows);

  /// Writes the operations of a profile, and sets its results. Can be called at most once per file.
  void write_profile(const Profile& profile);
  /// Write all rows of `lockstep layers` and of `lockstep stack`. Each can be called at most once
  /// per file.
  void write_layers(const std::vector<LayerRow>& rows);
  void write_stack(const std::vector<StackRow>& rows);

  /// Sets a result of the whole run, an attribute of /results in the schema of the run file, for
  /// example "last_test_accuracy". `finish` writes it to the file.
  void write_result(const std::string& name, double value);
  /// Adds a line to the warnings about the results (/results/warnings), which `finish` writes.
  void add_warning(const std::string& warning);

  /// Copies PATH.partial, adds `status` and the results to the copy, syncs the copy to disk,
  /// verifies it by reading, renames it to PATH and then deletes PATH.partial. `failure`: one-line
  /// error message of a failed run.
  void finish(RunStatus status, const std::string& failure = {});

  /// Calls `finish` for a failed run. Does nothing if an earlier write to the file has failed. Only
  /// logs its own errors, because the caller reports `failure`.
  void finish_failed(const std::string& failure);

  /// Deletes PATH.partial of a run without results.
  void discard();

  /// Returns the identifier of the run.
  const std::string& run_id() const;
  /// Returns PATH, where the file is stored after `finish`.
  const std::filesystem::path& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::record
