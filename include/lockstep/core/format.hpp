// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace lockstep::core {

/// Returns `value` with `digits` decimal places. A value that rounds to zero has no sign ("0.00",
/// not "-0.00").
std::string format_fixed(double value, int digits);
/// Returns a size with a decimal unit: "44.7 MB".
std::string format_bytes(double bytes);
/// Returns a duration in a suitable unit: "850 us", "12.3 ms", "4.56 s", "3 min 12 s" or
/// "2 h 05 min". Returns "-" if `seconds` is negative or NaN.
std::string format_seconds(double seconds);
/// Returns a count with a decimal prefix: "11.2 M", "1.11 G".
std::string format_count(double count);

}  // namespace lockstep::core
