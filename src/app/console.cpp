// SPDX-License-Identifier: BSD-3-Clause
#include "console.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lockstep/core/format.hpp"

namespace lockstep::app {

using core::format_fixed;
using core::format_seconds;

namespace {

/// Returns true if stdout is shown on a terminal. Open MPI's mpirun gives every rank a
/// pseudoterminal and copies its output to the stdout of mpirun; in that case the stdout of mpirun
/// is checked.
bool has_spectator() {
  if (isatty(STDOUT_FILENO) != 1) return false;
  if (std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) return true;
  std::error_code failed;
  const auto launcher =
      std::filesystem::read_symlink(fmt::format("/proc/{}/fd/1", getppid()), failed).string();
  return launcher.starts_with("/dev/pts/") || launcher.starts_with("/dev/tty");
}

}  // namespace

Console::Console(StandardOutput& output, bool is_enabled)
    : output_(output), is_enabled_(is_enabled), is_terminal_(is_enabled && has_spectator()) {}

Console::~Console() { erase_progress(); }

void Console::print(const std::string& text) {
  if (!is_enabled_) return;
  erase_progress();
  output_.write(text);
}

void Console::erase_progress() {
  if (!std::exchange(has_progress_, false)) return;
  output_.write("\r\x1b[K");  // moves to the start of the line and clears it
}

void Console::show(const std::string& text) {
  if (!is_terminal_) return;
  output_.write("\r" + text + "\x1b[K");
  has_progress_ = true;
}

void Console::show_progress(const train::CompletedStep& step) {
  const bool is_first = seconds_per_step_ == 0;
  seconds_per_step_ = is_first ? step.seconds : 0.9 * seconds_per_step_ + 0.1 * step.seconds;
  const auto now = Clock::now();
  if (!is_terminal_ || now - shown_ < std::chrono::milliseconds(200)) return;
  shown_ = now;
  const double left = seconds_per_step_ * static_cast<double>(step.total_steps - step.step);
  show(fmt::format("epoch {}, step {}/{}: loss {}, {:.1f} img/s, {} left", step.epoch,
                   step.step_of_epoch, step.steps_per_epoch, format_fixed(step.loss, 4),
                   static_cast<double>(step.images) / seconds_per_step_, format_seconds(left)));
}

void Console::show_evaluating() { show("evaluating the test images ..."); }

void Console::print_epoch(const record::EpochRecord& epoch, std::int64_t epochs) {
  double images = 0;
  for (const auto count : epoch.images) images += static_cast<double>(count);
  std::string text = fmt::format(
      "epoch {}/{}: {} steps in {}, {:.1f} img/s; training loss {}, accuracy {:.2f} %", epoch.epoch,
      epochs, epoch.loss.size(), format_seconds(epoch.seconds), images / epoch.seconds,
      format_fixed(epoch.train_loss, 4), 100 * epoch.train_accuracy);
  if (std::isfinite(epoch.test_accuracy)) {
    text += fmt::format("; test loss {}, accuracy {:.2f} % ({})", format_fixed(epoch.test_loss, 4),
                        100 * epoch.test_accuracy, format_seconds(epoch.evaluation_seconds));
  }
  print(text + "\n");
}

}  // namespace lockstep::app
