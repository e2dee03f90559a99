// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/error.hpp"

#include <fmt/format.h>

namespace lockstep::core {

void fail(ExitStatus status, const std::string& message) { throw Error(status, message); }

void check(bool condition, std::string_view what, std::source_location where) {
  if (condition) return;
  fail(ExitStatus::internal, fmt::format("internal error: {} ({}:{}); please report it", what,
                                         where.file_name(), where.line()));
}

}  // namespace lockstep::core
