// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace lockstep::backend::cuda {

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
  bool is_cached = false;   ///< taken from the engine cache without a new selection
  bool is_cut_off = false;  ///< the time limit was reached before the selection was complete
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

}  // namespace lockstep::backend::cuda
