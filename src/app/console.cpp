#include "console.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "lockstep/core/format.hpp"

namespace lockstep::app {

using core::format_seconds;

namespace {

/// Whether a person watches stdout. Open MPI's mpirun gives every rank a terminal of its own and
/// copies what appears there to its stdout: that one counts.
bool has_spectator() {
  if (isatty(STDOUT_FILENO) != 1) return false;
  if (std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) return true;
  std::error_code failed;
  const auto launcher =
      std::filesystem::read_symlink(fmt::format("/proc/{}/fd/1", getppid()), failed).string();
  return launcher.starts_with("/dev/pts/") || launcher.starts_with("/dev/tty");
}

}  // namespace

Console::Console(Voice voice)
    : speaks_(voice == Voice::speaks), is_terminal_(speaks_ && has_spectator()) {}

Console::~Console() { erase_progress(); }

void Console::print(const std::string& text) {
  if (!speaks_) return;
  erase_progress();
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void Console::erase_progress() {
  if (!std::exchange(has_progress_, false)) return;
  std::fputs("\r\x1b[K", stdout);  // to the line's start, clear it
  std::fflush(stdout);
}

void Console::show(const std::string& text) {
  if (!is_terminal_) return;
  std::fputs(("\r" + text + "\x1b[K").c_str(), stdout);
  std::fflush(stdout);
  has_progress_ = true;
}

void Console::show_progress(const train::StepReport& report) {
  const bool is_first = seconds_per_step_ == 0;
  seconds_per_step_ = is_first ? report.seconds : 0.9 * seconds_per_step_ + 0.1 * report.seconds;
  const auto now = Clock::now();
  if (!is_terminal_ || now - shown_ < std::chrono::milliseconds(200)) return;
  shown_ = now;
  const double left = seconds_per_step_ * static_cast<double>(report.total_steps - report.step);
  show(fmt::format("epoch {}, step {}/{}: loss {:.4f}, {:.1f} img/s, {} left", report.epoch,
                   report.step_of_epoch, report.steps_per_epoch, report.loss,
                   static_cast<double>(report.images) / seconds_per_step_, format_seconds(left)));
}

void Console::show_evaluating() { show("evaluating the test images ..."); }

void Console::print_epoch(const record::EpochRecord& epoch, std::int64_t epochs) {
  double images = 0;
  for (const auto count : epoch.images) images += static_cast<double>(count);
  std::string text = fmt::format(
      "epoch {}/{}: {} steps in {}, {:.1f} img/s; training loss {:.4f}, accuracy {:.2f} %",
      epoch.epoch, epochs, epoch.loss.size(), format_seconds(epoch.seconds), images / epoch.seconds,
      epoch.train_loss, 100 * epoch.train_accuracy);
  if (std::isfinite(epoch.test_accuracy)) {
    text += fmt::format("; test loss {:.4f}, accuracy {:.2f} % ({})", epoch.test_loss,
                        100 * epoch.test_accuracy, format_seconds(epoch.evaluation_seconds));
  }
  print(text + "\n");
}

Console::Voice voice_of(const train::Config& config, const comm::Communicator& communicator) {
  return communicator.rank() == 0 && !config.quiet && !config.json ? Console::Voice::speaks
                                                                   : Console::Voice::silent;
}

std::string describe_summary(const train::RunSummary& summary, int ranks,
                             const std::string& device) {
  if (summary.steps == 0) {
    return fmt::format("Nothing was left to do: the checkpoint stands at step {}, the last one.\n",
                       summary.last_step);
  }
  std::string text = fmt::format(
      "Img/sec per {}: {:.1f} +-{:.1f}\nTotal img/sec on {} {}(s): {:.1f} +-{:.1f}\n", device,
      summary.images_per_second / ranks, summary.images_per_second_spread / ranks, ranks, device,
      summary.images_per_second, summary.images_per_second_spread);
  text += fmt::format(
      "{} {} took {}, of which {} without waiting for data; {:.1f} % of the time was communication "
      "that "
      "nothing hid.\n",
      summary.epoch_complete ? "Epoch" : "The steps of epoch", summary.timed_epoch,
      format_seconds(summary.epoch_seconds), format_seconds(summary.training_seconds),
      100 * summary.exposed_share);
  text += fmt::format("Training ended with loss {:.4f} and accuracy {:.2f} %", summary.train_loss,
                      100 * summary.train_accuracy);
  if (std::isfinite(summary.last_test_accuracy)) {
    text += fmt::format("; on the test images {:.2f} % at last, {:.2f} % at best",
                        100 * summary.last_test_accuracy, 100 * summary.best_test_accuracy);
  }
  return text + ".\n";
}

}  // namespace lockstep::app
