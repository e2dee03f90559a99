// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "lockstep/record/run_records.hpp"
#include "lockstep/train/events.hpp"
#include "standard_output.hpp"

namespace lockstep::app {

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
  void show_progress(const train::CompletedStep& step);
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

}  // namespace lockstep::app
