#include "values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "limits.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::app {

namespace {

[[noreturn]] void fail_value(std::string_view option, const std::string& text,
                             std::string_view wanted) {
  core::fail(core::ExitStatus::usage, fmt::format("--{} {}: must be {}", option, text, wanted));
}

/// Reads the number at the start of `text`; `rest` is the text after it. Returns false if there is
/// none.
template <class T>
bool read_number(std::string_view text, T& number, std::string_view& rest) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  rest = text.substr(static_cast<std::size_t>(end - text.data()));
  return error == std::errc{};
}

template <class T>
T parse_whole(std::string_view option, const std::string& text, std::string_view kind,
              const std::string& range) {
  T number{};
  std::string_view rest;
  if (!read_number(text, number, rest) || !rest.empty()) {
    fail_value(option, text, fmt::format("{} {}", kind, range));
  }
  return number;
}

}  // namespace

std::int64_t parse_integer(std::string_view option, const std::string& text,
                           const std::string& range) {
  return parse_whole<std::int64_t>(option, text, "a whole number", range);
}

std::uint64_t parse_seed(std::string_view option, const std::string& text,
                         const std::string& range) {
  return parse_whole<std::uint64_t>(option, text, "a whole number", range);
}

double parse_real(std::string_view option, const std::string& text, const std::string& range) {
  return parse_whole<double>(option, text, "a number", range);
}

bool parse_flag(std::string_view option, const std::string& text) {
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto is_one_of = [&lower](auto... names) { return ((lower == names) || ...); };
  if (is_one_of("", "true", "yes", "on", "1")) return true;
  if (is_one_of("false", "no", "off", "0")) return false;
  fail_value(option, text, "true or false");
}

std::uint64_t parse_bytes(std::string_view option, const std::string& text,
                          const std::string& range) {
  const std::string wanted = fmt::format("bytes {}, such as 1500000, 64K, 500MB or 8GB", range);
  static constexpr std::array<std::pair<std::string_view, double>, 11> units{{{"", 1},
                                                                              {"B", 1},
                                                                              {"K", 0x1p10},
                                                                              {"KiB", 0x1p10},
                                                                              {"KB", 1e3},
                                                                              {"M", 0x1p20},
                                                                              {"MiB", 0x1p20},
                                                                              {"MB", 1e6},
                                                                              {"G", 0x1p30},
                                                                              {"GiB", 0x1p30},
                                                                              {"GB", 1e9}}};
  double number = 0;
  std::string_view rest;
  if (!read_number(std::string_view(text), number, rest)) fail_value(option, text, wanted);
  for (const auto& [unit, factor] : units) {
    const double bytes = number * factor;
    if (rest == unit && bytes >= 0 && bytes < 0x1p60) return static_cast<std::uint64_t>(bytes);
  }
  fail_value(option, text, wanted);
}

Interval parse_interval(std::string_view option, const std::string& text) {
  const std::string wanted = fmt::format(
      "a time such as 180s or 10min of at most {:.0f} s, or steps such as 200-steps, "
      "at most {}",
      limits::seconds, limits::steps);
  double number = 0;
  std::string_view rest;
  if (!read_number(std::string_view(text), number, rest) || !(number > 0)) {
    fail_value(option, text, wanted);
  }
  const bool counts_steps = rest == "-steps" || rest == "-step";
  if (counts_steps && number == std::floor(number) &&
      number <= static_cast<double>(limits::steps)) {
    return {.steps = static_cast<std::int64_t>(number)};
  }
  using Unit = std::pair<std::string_view, double>;
  for (const auto& [unit, factor] : {Unit{"s", 1}, Unit{"min", 60}, Unit{"h", 3600}}) {
    if (rest == unit && number * factor <= limits::seconds) return {.seconds = number * factor};
  }
  fail_value(option, text, wanted);
}

}  // namespace lockstep::app
