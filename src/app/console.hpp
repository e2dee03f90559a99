#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/summary.hpp"
#include "lockstep/train/trainer.hpp"

namespace lockstep::app {

/// What a person sees on stdout: texts, an epoch's line, and on a terminal a line of progress that
/// moves.
class Console {
 public:
  enum class Voice { speaks, silent };

  explicit Console(Voice voice);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Whole lines. Silent consoles say nothing.
  void print(const std::string& text);

  /// At most a few times a second, and only on a terminal.
  void show_progress(const train::StepReport& report);
  void show_evaluating();
  void print_epoch(const record::EpochRecord& epoch, std::int64_t epochs);

 private:
  using Clock = std::chrono::steady_clock;
  void erase_progress();
  void show(const std::string& text);

  bool speaks_;
  bool is_terminal_;
  bool has_progress_ = false;
  Clock::time_point shown_{};
  double seconds_per_step_ = 0;  ///< smoothed
};

/// Rank 0 speaks, unless `--quiet` or `--json` forbid it.
Console::Voice voice_of(const train::Config& config, const comm::Communicator& communicator);

/// Returns a warning if the epoch's test loss is above ln(classes), the loss of guessing all
/// classes with equal probability; empty otherwise, and if the epoch was not evaluated.
std::string describe_high_loss(const record::EpochRecord& epoch, std::int64_t classes);

/// The last lines: images per second with Horovod's words, times and accuracy. `device`: "CPU
/// rank".
std::string describe_summary(const train::RunSummary& summary, int ranks,
                             const std::string& device);

}  // namespace lockstep::app
