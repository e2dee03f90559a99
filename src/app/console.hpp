// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <string>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/timing/summary.hpp"
#include "lockstep/train/trainer.hpp"
#include "standard_output.hpp"

namespace lockstep::app {

/// Output for users on stdout: text, one line per epoch and, on a terminal, a progress line that is
/// updated in place.
class Console {
 public:
  /// Whether the console prints.
  enum class Verbosity { normal, silent };

  Console(StandardOutput& output, Verbosity verbosity);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Prints whole lines. No effect on a silent console.
  void print(const std::string& text);

  StandardOutput& output() const { return output_; }

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

/// Returns `normal` on rank 0 unless `--quiet` or `--json` is given, otherwise `silent`.
Console::Verbosity verbosity_of(const train::Config& config,
                                const comm::Communicator& communicator);

/// Returns a warning if the test loss of the epoch is above ln(classes), the loss of guessing all
/// classes of the network with equal probability. Returns an empty text if it is not, or if the
/// epoch was not evaluated.
std::string describe_high_loss(const record::EpochRecord& epoch, const graph::Graph& graph);

/// Returns the final summary: images per second in the format of Horovod's benchmarks, times and
/// accuracy. `device`: for example "CPU rank".
std::string describe_summary(const train::RunSummary& summary, int ranks,
                             const std::string& device);

}  // namespace lockstep::app
