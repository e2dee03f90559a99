#pragma once

#include <string_view>

namespace lockstep::core {

/// Writes one line to stderr: "lockstep: MESSAGE". One write, so lines of several ranks do not mix.
void log_line(std::string_view message) noexcept;

/// The same with "lockstep: warning: ".
void log_warning(std::string_view message) noexcept;

}  // namespace lockstep::core
