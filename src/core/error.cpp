// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/error.hpp"

#include <fmt/format.h>
#include <unistd.h>

namespace lockstep::core {

namespace {

void write_line(std::string_view prefix, std::string_view message) noexcept {
  try {
    std::string line(prefix);
    line.append(message).push_back('\n');
    // Errors are ignored: there is no other place to report that stderr cannot be written.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {  // out of memory: the message is lost, the program continues
  }
}

}  // namespace

void fail(ExitStatus status, const std::string& message) { throw Error(status, message); }

void check(bool condition, std::string_view what, std::source_location where) {
  if (condition) return;
  fail(ExitStatus::internal, fmt::format("internal error: {} ({}:{}); please report it", what,
                                         where.file_name(), where.line()));
}

void log_line(std::string_view message) noexcept { write_line("lockstep: ", message); }

void log_warning(std::string_view message) noexcept { write_line("lockstep: warning: ", message); }

}  // namespace lockstep::core
