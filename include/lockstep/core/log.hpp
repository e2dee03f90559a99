// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

namespace lockstep::core {

/// Writes the line "lockstep: MESSAGE" to stderr with a single write(), so that lines of different
/// ranks are not interleaved.
void log_line(std::string_view message) noexcept;

/// Writes the line "lockstep: warning: MESSAGE" to stderr in the same way.
void log_warning(std::string_view message) noexcept;

}  // namespace lockstep::core
