#pragma once

#include <cstdint>
#include <string>

namespace lockstep::core {

/// `value` with `digits` decimals; a value that rounds to zero has no sign ("0.00", not "-0.00").
std::string format_fixed(double value, int digits);
std::string format_bytes(double bytes);  ///< decimal units: "44.7 MB"
std::string format_seconds(
    double seconds);  ///< "850 us", "12.3 ms", "4.56 s", "3 min 12 s", "2 h 05 min"
std::string format_count(double count);  ///< "11.2 M", "1.11 G"

}  // namespace lockstep::core
