// SPDX-License-Identifier: BSD-3-Clause
#include "values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <type_traits>

#include "limits.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::app {

void fail_value(std::string_view option, const std::string& text, std::string_view wanted) {
  core::fail(core::ExitStatus::usage,
             fmt::format("--{} {}: must be {}", option, text.empty() ? "''" : text, wanted));
}

namespace {

/// Reads the number at the start of `text`; `rest` is the text after it. Returns false if there is
/// none.
template <class T>
bool read_number(std::string_view text, T& number, std::string_view& rest) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  rest = text.substr(static_cast<std::size_t>(end - text.data()));
  return error == std::errc{};
}

/// Returns the value of the variable `name`, which the path `text` begins with.
std::string variable(std::string_view option, const std::string& text, const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value != nullptr && *value != '\0') return value;
  core::fail(
      core::ExitStatus::usage,
      fmt::format("--{} {}: the variable {} is not set; write the whole path", option, text, name));
}

}  // namespace

std::string parse_path(std::string_view option, const std::string& text) {
  constexpr std::string_view blanks = " \t\r\n", file_scheme = "file://";
  const std::size_t begin = std::min(text.find_first_not_of(blanks), text.size());
  std::string path = text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
  if (path.starts_with(file_scheme)) path.erase(0, file_scheme.size());
  const std::size_t scheme = path.find("://");
  if (scheme != path.npos && scheme < path.find('/')) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--{} {}: is a URL; download the file and give its path", option, text));
  }
  const std::string first = path.substr(0, path.find('/'));
  if (first == "~") return variable(option, text, "HOME") + path.substr(1);
  if (first.starts_with('~')) {
    core::fail(
        core::ExitStatus::usage,
        fmt::format("--{} {}: {} is not expanded here; write the whole path", option, text, first));
  }
  if (first.size() < 2 || first.front() != '$') return path;
  const bool has_braces = first[1] == '{' && first.ends_with('}');
  const std::string name = has_braces ? first.substr(2, first.size() - 3) : first.substr(1);
  return variable(option, text, name) + path.substr(first.size());
}

template <class T>
T parse_number(std::string_view option, const std::string& text, const std::string& range) {
  T number{};
  std::string_view rest;
  if (!read_number(text, number, rest) || !rest.empty()) {
    const std::string_view kind = std::is_integral_v<T> ? "a whole number" : "a number";
    fail_value(option, text, fmt::format("{} {}", kind, range));
  }
  return number;
}
template std::int64_t parse_number(std::string_view, const std::string&, const std::string&);
template std::uint64_t parse_number(std::string_view, const std::string&, const std::string&);
template double parse_number(std::string_view, const std::string&, const std::string&);

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
