// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/core/handle.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/timing/summary.hpp"
#include "lockstep/train/trainer.hpp"

namespace lockstep::app {

/// The standard output of the program. An error, for example a full disk or a pipe whose reader has
/// ended, does not stop the command: further output is dropped, and `finish` reports the error when
/// the command is complete. `run_process` owns the only object.
class StandardOutput {
 public:
  /// Opens /dev/null in place of standard streams that are closed, because the next file that is
  /// opened would otherwise get their descriptor and their output; writing to a stdout that was
  /// closed still fails. Ignores SIGPIPE and SIGXFSZ, so that writing fails with an error instead.
  StandardOutput();

  /// Redirects descriptor 1 to stderr. From now on, stdout contains only what `write` prints, and
  /// not the output of libraries, such as that of oneDNN if ONEDNN_VERBOSE is set.
  void separate();

  void write(std::string_view text) noexcept;

  /// Returns the descriptor to which `write` writes.
  int descriptor() const;

  /// To be called when the command is complete. Returns `status` if everything was written.
  /// Otherwise logs a message and returns `output` if `status` is `done`, else `status`.
  core::ExitStatus finish(core::ExitStatus status);

 private:
  core::Descriptor separate_;  ///< empty until `separate`
  int failure_ = 0;            ///< error number of the first write that failed
};

/// Output for users on stdout: text, one line per epoch and, on a terminal, a progress line that is
/// updated in place.
class Console {
 public:
  /// Prints only if `is_enabled`.
  Console(StandardOutput& output, bool is_enabled);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Prints whole lines.
  void print(const std::string& text);

  /// Updates the progress line, at most a few times per second. No effect if stdout is not a
  /// terminal.
  void show_progress(const train::StepReport& report);
  void show_evaluating();
  void print_epoch(const record::EpochRecord& epoch, std::int64_t epochs);

 private:
  using Clock = std::chrono::steady_clock;
  void erase_progress();
  void show(const std::string& text);

  StandardOutput& output_;
  bool is_enabled_;
  bool is_terminal_;
  bool has_progress_ = false;
  Clock::time_point shown_{};
  double seconds_per_step_ = 0;  ///< exponential moving average
};

/// Returns the final summary: images per second in the format of Horovod's benchmarks, times and
/// accuracy.
std::string describe_summary(const train::RunSummary& summary, int ranks, backend::DeviceKind kind);
/// Returns the results of a training on `ranks` ranks.
nlohmann::json to_json(const train::RunSummary& summary, int ranks);

/// Returns the highest rates and the table of the operations, with those of the same kind, shape
/// and phase in one row.
std::string describe_operations(const record::Profile& profile);

/// Returns the operations of a profile and what the profile costs.
std::string describe(const record::Profile& profile);

nlohmann::json to_json(const record::Profile& profile);

}  // namespace lockstep::app
