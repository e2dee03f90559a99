// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/format.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace lockstep::core {

namespace {

std::string with_prefix(double value, const char* unit) {
  constexpr std::array prefixes{"", "k", "M", "G", "T", "P"};
  std::size_t step = 0;
  while (std::abs(value) >= 999.5 && step + 1 < prefixes.size()) {
    value /= 1000;
    ++step;
  }
  const int digits = step == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}{}", value, digits, prefixes[step], unit);
}

}  // namespace

std::string format_fixed(double value, int digits) {
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (text.starts_with('-') && text.find_first_not_of("-0.") == std::string::npos) text.erase(0, 1);
  return text;
}

std::string format_bytes(double bytes) { return with_prefix(bytes, "B"); }

std::string format_count(double count) {
  const std::string text = with_prefix(count, "");
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

std::string format_seconds(double seconds) {
  if (!(seconds >= 0)) return "-";
  if (seconds > 0 && seconds < 1e-6) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.2f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace lockstep::core
