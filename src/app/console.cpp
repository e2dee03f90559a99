// SPDX-License-Identifier: BSD-3-Clause
#include "console.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lockstep/core/error.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/core/meter/process_meter.hpp"
#include "lockstep/study/profile.hpp"

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

StandardOutput::StandardOutput() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // `open` returns the lowest free descriptor, which is `stream`.
    ::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void StandardOutput::separate() {
  separate_ = core::Descriptor(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (separate_) ::dup2(STDERR_FILENO, STDOUT_FILENO);
}

int StandardOutput::descriptor() const { return separate_ ? separate_.get() : STDOUT_FILENO; }

void StandardOutput::write(std::string_view text) noexcept {
  pollfd entry{.fd = descriptor(), .events = POLLOUT, .revents = 0};
  while (failure_ == 0 && !text.empty()) {
    const ssize_t written = ::write(descriptor(), text.data(), text.size());
    if (written >= 0)
      text.remove_prefix(static_cast<std::size_t>(written));
    else if (errno == EAGAIN)  // a non-blocking file, such as a terminal that a program shares
      ::poll(&entry, 1, -1);
    else if (errno != EINTR)
      failure_ = errno;
  }
}

core::ExitStatus StandardOutput::finish(core::ExitStatus status) {
  // Network file systems report some errors only when a descriptor of the file is closed.
  const int copy = ::dup(descriptor());
  if (copy != -1 && ::close(copy) != 0 && failure_ == 0) failure_ = errno;
  if (failure_ == 0) return status;
  core::log_line(fmt::format(
      "cannot write to standard output ({}), so what the command has printed is incomplete; its "
      "files are not affected",
      std::generic_category().message(failure_)));
  return status == core::ExitStatus::done ? core::ExitStatus::output : status;
}

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

void Console::show_progress(const train::StepReport& report) {
  const bool is_first = seconds_per_step_ == 0;
  seconds_per_step_ = is_first ? report.seconds : 0.9 * seconds_per_step_ + 0.1 * report.seconds;
  const auto now = Clock::now();
  if (!is_terminal_ || now - shown_ < std::chrono::milliseconds(200)) return;
  shown_ = now;
  const double left = seconds_per_step_ * static_cast<double>(report.total_steps - report.step);
  show(fmt::format("epoch {}, step {}/{}: loss {}, {:.1f} img/s, {} left", report.epoch,
                   report.step_of_epoch, report.steps_per_epoch, format_fixed(report.loss, 4),
                   static_cast<double>(report.images) / seconds_per_step_, format_seconds(left)));
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

namespace {

std::string describe_test_accuracy(const train::RunSummary& summary) {
  if (!std::isfinite(summary.last_test_accuracy)) return "";
  return fmt::format("Final test accuracy {:.2f} % (best {:.2f} %).\n",
                     100 * summary.last_test_accuracy, 100 * summary.best_test_accuracy);
}

/// Describes which steps were timed, as part of a sentence.
std::string describe_window(const train::RunSummary& summary) {
  if (!summary.epoch_complete) {
    return fmt::format("scaled from {} of {} steps of epoch {}", summary.timed_steps,
                       summary.steps_per_epoch, summary.timed_epoch);
  }
  if (summary.skipped_steps == 0) {
    return fmt::format("epoch {}, all {} steps", summary.timed_epoch, summary.timed_steps);
  }
  return fmt::format("epoch {} without its first {} of {} steps", summary.timed_epoch,
                     summary.skipped_steps, summary.steps_per_epoch);
}

}  // namespace

std::string describe_summary(const train::RunSummary& summary, int ranks,
                             backend::DeviceKind kind) {
  if (summary.steps == 0) {
    return fmt::format(
        "Nothing is left to train: the checkpoint is after step {}, the last one.\n{}",
        summary.last_step, describe_test_accuracy(summary));
  }
  const char* device = kind == backend::DeviceKind::cuda ? "GPU" : "CPU rank";
  std::string text =
      fmt::format("Img/sec per {}: {:.1f}\nTotal img/sec on {} {}(s): {:.1f}\n", device,
                  summary.images_per_second / ranks, ranks, device, summary.images_per_second);
  text +=
      fmt::format("An epoch takes {}, of which {} are training without waiting for data ({}).\n",
                  format_seconds(summary.epoch_seconds), format_seconds(summary.training_seconds),
                  describe_window(summary));
  if (ranks > 1) {
    text += fmt::format("Exposed communication is {} % of the epoch.\n",
                        format_fixed(100 * summary.exposed_share, 1));
  }
  if (summary.lacking_share >= core::lacking_limit) {
    text += fmt::format(
        "Rank {} lacked a processor for {} % of the epoch (other processes, more threads than "
        "processors, a CPU quota, or a hypervisor): these times do not describe the program.\n",
        summary.lacking_rank, format_fixed(100 * summary.lacking_share, 1));
  }
  text += fmt::format("Final training loss {}, training accuracy {:.2f} %.\n",
                      format_fixed(summary.train_loss, 4), 100 * summary.train_accuracy);
  return text + describe_test_accuracy(summary);
}

nlohmann::json to_json(const train::RunSummary& summary, int ranks) {
  return {{"steps", summary.steps},
          {"last_step", summary.last_step},
          {"images_per_second", summary.images_per_second},
          {"images_per_second_per_rank", summary.images_per_second / ranks},
          {"timed_epoch", summary.timed_epoch},
          {"timed_steps", summary.timed_steps},
          {"steps_per_epoch", summary.steps_per_epoch},
          {"images_per_epoch", summary.images_per_epoch},
          {"is_extrapolated", !summary.epoch_complete},
          {"timed_epoch_is_complete", summary.epoch_complete},
          {"epoch_seconds", summary.epoch_seconds},
          {"training_seconds", summary.training_seconds},
          {"exposed_communication_share", summary.exposed_share},
          {"lacking_processor_share", summary.lacking_share},
          {"train_loss", summary.train_loss},
          {"train_accuracy", summary.train_accuracy},
          {"last_test_loss", summary.last_test_loss},
          {"last_test_accuracy", summary.last_test_accuracy},
          {"best_test_accuracy", summary.best_test_accuracy},
          {"peak_memory_bytes", summary.peak_memory_bytes}};
}

namespace {

constexpr std::string_view all_reduce = "all-reduce";

/// Returns a rate in units of 10^9 per second; "-" if there is none.
std::string rate(double amount, double seconds) {
  return amount > 0 && seconds > 0 ? fmt::format("{:.1f}", amount / seconds / 1e9) : "-";
}

std::string describe_rates(const record::Profile& profile) {
  if (profile.ceiling_source.empty()) return "";
  if (profile.flops_per_second == 0)
    return fmt::format("Highest rates: {}.\n", profile.ceiling_source);
  return fmt::format("Highest rates: {}FLOP/s, {}/s ({}).\n",
                     core::format_count(profile.flops_per_second),
                     core::format_bytes(profile.bytes_per_second), profile.ceiling_source);
}

}  // namespace

std::string describe_operations(const record::Profile& profile) {
  std::string text = fmt::format(
      "The ceiling is the resource that needs longer at its highest rate; bound is the time at "
      "that rate\nas a share of the measured time.\n{}\n"
      "{:<48} {:<17} {:>5} {:>9} {:>6} {:>8} {:>7} {:<8} {:>6}  {}\n",
      describe_rates(profile), "operation", "phase", "calls", "ms", "share", "GFLOP/s", "GB/s",
      "ceiling", "bound", "implementation");
  double total = 0;
  for (const auto& operation : profile.operations)
    if (operation.phase != all_reduce) total += operation.seconds[0];
  for (const study::OperationGroup& row : study::group_operations(profile)) {
    const bool overlaps = row.phase == all_reduce;
    text += fmt::format(
        "{:<48} {:<17} {:>5.4g} {:>9.3f} {:>6} {:>8} {:>7} {:<8} {:>6}  {}\n", row.what,
        row.phase == row.what ? "" : row.phase, row.calls, row.seconds * 1e3,
        overlaps ? "*" : fmt::format("{:.1f}%", 100 * row.seconds / total),
        rate(row.flops, row.seconds), rate(row.bytes, row.seconds), row.ceiling,
        row.bound_seconds == 0 ? "-"
                               : fmt::format("{:.0f}%", 100 * row.bound_seconds / row.seconds),
        row.implementation);
  }
  return text + fmt::format("{:<48} {:<17} {:>5} {:>9.3f}\n", "sum", "", "", total * 1e3);
}

std::string describe(const record::Profile& profile) {
  const double with = profile.step_seconds, without = profile.step_seconds_without_profile;
  std::string text =
      fmt::format("Profile of {} training steps: times of rank 0 per step.\n", profile.steps) +
      describe_operations(profile);
  const bool communicates = std::ranges::any_of(
      profile.operations, [](const auto& operation) { return operation.phase == all_reduce; });
  if (communicates)
    text += "* overlaps with other operations; GB are those that a rank contributes\n";
  return text + fmt::format(
                    "\nCost of the profile: a step takes {} with it and {} without ({:+.1f} %; "
                    "medians of {} steps each, in turn).\n",
                    core::format_seconds(with), core::format_seconds(without),
                    100 * (with / without - 1), profile.steps);
}

nlohmann::json to_json(const record::Profile& profile) {
  nlohmann::json json = {{"steps", profile.steps},
                         {"step_seconds", profile.step_seconds},
                         {"flops_per_second", profile.flops_per_second},
                         {"bytes_per_second", profile.bytes_per_second},
                         {"ceiling_source", profile.ceiling_source},
                         {"operations", nlohmann::json::array()}};
  if (profile.step_seconds_without_profile > 0)
    json["step_seconds_without_profile"] = profile.step_seconds_without_profile;
  for (const auto& row : profile.operations)
    json["operations"].push_back({{"name", row.name},
                                  {"operation", row.what},
                                  {"phase", row.phase},
                                  {"implementation", row.implementation},
                                  {"ceiling", row.ceiling},
                                  {"calls", row.calls},
                                  {"flops", row.flops},
                                  {"bytes", row.bytes},
                                  {"bound_seconds", row.bound_seconds},
                                  {"seconds_of_ranks", row.seconds}});
  return json;
}

}  // namespace lockstep::app
