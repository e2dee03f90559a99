#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep::core {

/// The program's exit statuses; documented in docs/exit-status.md and stable.
enum class ExitStatus : int {
  done = 0,
  usage = 2,          ///< bad option, or ranks that do not agree
  input = 3,          ///< bad or missing input data
  out_of_memory = 4,  ///< device or host memory
  diverged = 5,       ///< the loss is not finite
  output = 6,         ///< a file cannot be written
  internal = 70,      ///< a bug, or the watchdog
  interrupted = 75,   ///< stopped on a signal with a checkpoint saved: run the same command again
};

/// The status of a program that a signal stopped without a saved state: 128 plus its number, as
/// shells report it.
constexpr ExitStatus stopped_by(int signal) { return static_cast<ExitStatus>(128 + signal); }

/// A failure that ends the program. The message is one line: what happened, why, and what to do
/// about it.
class Error : public std::runtime_error {
 public:
  Error(ExitStatus status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  ExitStatus status() const noexcept { return status_; }

 private:
  ExitStatus status_;
};

/// Throws `Error` with that status and message.
[[noreturn]] void fail(ExitStatus status, const std::string& message);

/// Holds an invariant of our own code: throws `Error` with status `internal` naming the caller's
/// file and line. For bad input use `fail` with the fitting status.
void check(bool condition, std::string_view what,
           std::source_location where = std::source_location::current());

}  // namespace lockstep::core
