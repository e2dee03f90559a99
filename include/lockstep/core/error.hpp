// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep::core {

/// Exit statuses of the program. The values are stable; docs/reliability.md documents them.
enum class ExitStatus : int {
  done = 0,
  usage = 2,          ///< invalid option, or the ranks do not agree
  input = 3,          ///< invalid or missing input data
  out_of_memory = 4,  ///< not enough device or host memory, or no further thread
  diverged = 5,       ///< the loss is not finite
  output = 6,         ///< an output file cannot be written
  internal = 70,      ///< a bug, or a watchdog timeout
  interrupted = 75,   ///< stopped by a signal after saving a checkpoint; the same command resumes
};

/// Returns the exit status of a program that was stopped by a signal and saved no checkpoint: 128
/// plus the signal number, as shells report it.
constexpr ExitStatus stopped_by(int signal) { return static_cast<ExitStatus>(128 + signal); }

/// Returns whether a signal stopped a program with this exit status.
constexpr bool is_stop(ExitStatus status) {
  return status == ExitStatus::interrupted || static_cast<int>(status) > 128;
}

/// Error that ends the program. The message is one line that states what failed, why, and what the
/// user can do.
class Error : public std::runtime_error {
 public:
  Error(ExitStatus status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  ExitStatus status() const noexcept { return status_; }

 private:
  ExitStatus status_;
};

/// Throws `Error` with `status` and `message`.
[[noreturn]] void fail(ExitStatus status, const std::string& message);

/// Checks an invariant of the program: if `condition` is false, throws `Error` (internal) with
/// `what` and the caller's file and line. For invalid input use `fail` with the appropriate status.
void check(bool condition, std::string_view what,
           std::source_location where = std::source_location::current());

/// Writes the line "lockstep: MESSAGE" to stderr with a single write(), so that lines of different
/// ranks are not interleaved.
void log_line(std::string_view message) noexcept;

/// Writes the line "lockstep: warning: MESSAGE" to stderr in the same way.
void log_warning(std::string_view message) noexcept;

}  // namespace lockstep::core
