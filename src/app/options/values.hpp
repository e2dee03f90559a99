// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Conversion of the texts of options to values. All functions throw `Error` (usage) that names
// option, text and, for numbers, `range`, a phrase for the permitted values.
namespace lockstep::app {

/// Throws the `Error` (usage) of a value that is not `wanted`. An empty value, as that of a
/// variable that is not set, is shown as ''.
[[noreturn]] void fail_value(std::string_view option, const std::string& text,
                             std::string_view wanted);

/// T: int64_t, uint64_t or double. A real number may be infinite or NaN.
template <class T>
T parse_number(std::string_view option, const std::string& text, const std::string& range);

/// "true", "yes", "on", "1" and an empty text are true; "false", "no", "off" and "0" are false. The
/// case of letters does not matter.
bool parse_flag(std::string_view option, const std::string& text);

/// Returns a path as the shell would pass it: without blanks at its ends, with ~, ~/, $NAME/ and
/// ${NAME}/ at its start expanded, and without file://. The shell does not expand them in
/// --NAME=~/..., in quotes, in files and in variables. Refuses other URLs, ~USER, and variables
/// that are not set.
std::string parse_path(std::string_view option, const std::string& text);

/// Parses a number with a unit: "1500000", "64K", "8GB", "2GiB". K, M and G are powers of 1024; KB,
/// MB and GB are powers of 1000.
std::uint64_t parse_bytes(std::string_view option, const std::string& text,
                          const std::string& range);

/// An interval such as "180s", "3min" or "200-steps"; exactly one member is not zero.
struct Interval {
  double seconds = 0;
  std::int64_t steps = 0;
};
Interval parse_interval(std::string_view option, const std::string& text);

}  // namespace lockstep::app
