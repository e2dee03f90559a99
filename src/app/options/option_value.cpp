// SPDX-License-Identifier: BSD-3-Clause
#include "option_value.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "lockstep/core/error.hpp"
#include "suggestion.hpp"

namespace lockstep::app {

namespace {

/// Throws the `Error` (usage) of a value that is not `wanted`. An empty value, as that of a
/// variable that is not set, is shown as ''.
[[noreturn]] void fail_value(std::string_view option, const std::string& text,
                             std::string_view wanted) {
  core::fail(core::ExitStatus::usage,
             fmt::format("--{} {}: must be {}", option, text.empty() ? "''" : text, wanted));
}

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

/// Returns a unit in lower case without blanks around it.
std::string plain_unit(std::string_view text) {
  std::string unit;
  for (const char c : text) {
    if (c != ' ' && c != '\t') unit += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return unit;
}

/// Returns the bytes of a unit: K, Ki, KiB, ... are powers of 1024, KB, ... are powers of 1000;
/// 0 if there is no such unit.
double bytes_of(const std::string& unit) {
  if (unit.empty() || unit == "b") return 1;
  const std::size_t power = std::string_view("kmgt").find(unit.front()) + 1;
  const std::string_view rest = std::string_view(unit).substr(1);
  if (power == 0) return 0;
  const bool is_binary = rest.empty() || rest == "i" || rest == "ib";
  if (!is_binary && rest != "b") return 0;
  return std::pow(is_binary ? 1024.0 : 1000.0, static_cast<double>(power));
}

std::uint64_t parse_bytes(std::string_view option, const std::string& text,
                          const std::string& range) {
  double number = 0;
  std::string_view rest;
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const bool has_number = read_number(std::string_view(text).substr(begin), number, rest);
  const double unit = bytes_of(plain_unit(rest));
  const double bytes = number * unit;
  if (!has_number || unit == 0 || !(bytes >= 0 && bytes < 0x1p60)) {
    fail_value(option, text, fmt::format("bytes {}, such as 1500000, 64K, 500MB or 8GiB", range));
  }
  return static_cast<std::uint64_t>(bytes);
}

/// Returns the seconds of a unit of time; 0 if there is no such unit.
double seconds_of(const std::string& unit) {
  const auto is_one_of = [&unit](auto... names) { return ((unit == names) || ...); };
  if (is_one_of("s", "sec", "secs", "second", "seconds")) return 1;
  if (is_one_of("m", "min", "mins", "minute", "minutes")) return 60;
  return is_one_of("h", "hr", "hrs", "hour", "hours") ? 3600 : 0;
}

/// As a real number, of MiB; with a unit, as bytes.
double parse_mib(std::string_view option, const std::string& text, const std::string& range) {
  const bool has_unit = text.find_first_of("bBkKmMgGtT") != text.npos;
  return has_unit ? static_cast<double>(parse_bytes(option, text, range)) / 0x1p20
                  : parse_number<double>(option, text, range);
}

/// Binds a member of type `T` to `parse_number`, which converts a text to a value of type `Parsed`.
template <class T, class Parsed>
OptionValue number(std::string_view type, Member<T> member, Range range, SpecialValue<T> special,
                   Parsed (*parse_number)(std::string_view, const std::string&,
                                          const std::string&)) {
  std::string phrase = range.describe();
  if (!special.name.empty()) phrase += fmt::format(", or {}", special.name);
  OptionValue value{.type = type, .range = phrase, .bounds = range, .placeholder = "N"};
  value.parse = [=](Options& options, std::string_view option, const std::string& text) {
    if (!special.name.empty() && text == special.name) {
      member(options) = special.value;
      return;
    }
    const Parsed number = parse_number(option, text, phrase);
    if (!range.contains(static_cast<long double>(number))) fail_value(option, text, phrase);
    member(options) = static_cast<T>(number);
    core::check(static_cast<Parsed>(member(options)) == number, "the bounds fit the type");
  };
  value.print = [=](const Options& options) {
    const bool is_special = !special.name.empty() && member(options) == special.value;
    return is_special ? std::string(special.name) : fmt::format("{}", member(options));
  };
  return value;
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

OptionValue integer(Member<int> member, Range range, SpecialValue<int> special) {
  return number<int>("integer", member, range, special, parse_number<std::int64_t>);
}

OptionValue integer(Member<std::int64_t> member, Range range, SpecialValue<std::int64_t> special) {
  return number<std::int64_t>("integer", member, range, special, parse_number<std::int64_t>);
}

OptionValue seed(Member<std::uint64_t> member) {
  return number<std::uint64_t>("integer", member, from_to_below(0, 0x1p64), {},
                               parse_number<std::uint64_t>);
}

OptionValue real(Member<double> member, Range range, SpecialValue<double> special) {
  return number<double>("number", member, range, special, parse_number<double>);
}

OptionValue bytes(Member<std::uint64_t> member, Range range) {
  OptionValue value = number<std::uint64_t>("bytes", member, range, {}, parse_bytes);
  value.placeholder = "BYTES";
  return value;
}

OptionValue mib(Member<double> member, Range range, SpecialValue<double> special) {
  return number<double>("number", member, range, special, parse_mib);
}

OptionValue text(Member<std::string> member) {
  OptionValue value{.type = "text"};
  value.parse = [member](Options& options, std::string_view, const std::string& text) {
    member(options) = text;
  };
  value.print = [member](const Options& options) { return member(options); };
  return value;
}

OptionValue path(Member<std::string> member) {
  OptionValue value = text(member);
  value.type = "path";
  value.placeholder = "FILE";
  value.parse = [member](Options& options, std::string_view option, const std::string& text) {
    member(options) = parse_path(option, text);
  };
  return value;
}

OptionValue data_source(Member<std::string> member) {
  OptionValue value = text(member);
  value.parse = [member](Options& options, std::string_view option, const std::string& text) {
    const std::size_t colon = text.find(':');
    const bool has_name = colon != text.npos && text.substr(colon, 3) != "://";
    const std::size_t begin = has_name ? colon + 1 : 0;
    member(options) = text.substr(0, begin) + parse_path(option, text.substr(begin));
  };
  return value;
}

OptionValue one_of(Member<std::string> member, std::vector<std::string> names) {
  OptionValue value = text(member);
  value.type = "choice";
  value.placeholder = "NAME";
  for (auto& name : names) value.names.push_back({std::move(name), ""});
  value.parse = [member, names = value.names](Options& options, std::string_view option,
                                              const std::string& text) {
    if (std::ranges::find(names, text, &ValueName::name) == names.end()) {
      fail_choice(option, text, names);
    }
    member(options) = text;
  };
  return value;
}

OptionValue flag(Member<bool> member) {
  OptionValue value{.type = "flag"};
  value.parse = [member](Options& options, std::string_view option, const std::string& text) {
    std::string lower = text;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    const auto is_one_of = [&lower](auto... names) { return ((lower == names) || ...); };
    member(options) = is_one_of("", "true", "yes", "on", "1");
    if (!member(options) && !is_one_of("false", "no", "off", "0"))
      fail_value(option, text, "true or false");
  };
  value.print = [member](const Options& options) { return fmt::format("{}", member(options)); };
  return value;
}

OptionValue checkpoint_interval() {
  OptionValue value{
      .type = "interval",
      .range = fmt::format("at most {:.0f} s or {} steps", limits::seconds, limits::steps)};
  value.parse = [](Options& options, std::string_view option, const std::string& text) {
    double number = 0;
    std::string_view rest;
    const bool is_positive = read_number(std::string_view(text), number, rest) && number > 0;
    const std::string unit = plain_unit(rest);
    double seconds = 0;
    std::int64_t steps = 0;
    if (unit == "-steps" || unit == "-step" || unit == "steps" || unit == "step") {
      if (number == std::floor(number) && number <= static_cast<double>(limits::steps))
        steps = static_cast<std::int64_t>(number);
    } else {
      const double factor = seconds_of(unit);
      if (number * factor <= limits::seconds) seconds = number * factor;
    }
    if (!is_positive || (seconds == 0 && steps == 0)) {
      fail_value(option, text,
                 fmt::format("a time such as 180s or 10min of at most {:.0f} s, or steps such as "
                             "200-steps, at most {}",
                             limits::seconds, limits::steps));
    }
    options.training.checkpoint.seconds = seconds;
    options.training.checkpoint.steps = steps;
  };
  value.print = [](const Options& options) {
    return options.training.checkpoint.steps > 0
               ? fmt::format("{}-steps", options.training.checkpoint.steps)
               : fmt::format("{}s", options.training.checkpoint.seconds);
  };
  return value;
}

OptionValue option_file() {
  OptionValue value{.type = "path", .placeholder = "FILE"};
  value.parse = [](Options&, std::string_view, const std::string&) {};
  return value;
}

void fail_choice(std::string_view option, const std::string& text,
                 const std::vector<ValueName>& values) {
  std::vector<std::string> names;
  for (const auto& value : values) names.push_back(value.name);
  core::fail(core::ExitStatus::usage,
             fmt::format("--{} {}: unknown value; the values are: {}{}", option, text,
                         fmt::join(names, ", "), suggestion(text, names)));
}

}  // namespace lockstep::app
