// SPDX-License-Identifier: BSD-3-Clause
#include "option_value.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "limits.hpp"
#include "lockstep/core/error.hpp"
#include "suggestion.hpp"

namespace lockstep::app {

using train::Config;

namespace {

/// Binds a member of type `T` to `parse_number`, which converts a text to a value of type `Parsed`.
template <class T, class Parsed>
OptionValue number(std::string_view type, Member<T> member, Range range, SpecialValue<T> special,
                   Parsed (*parse_number)(std::string_view, const std::string&,
                                          const std::string&)) {
  std::string phrase = range.describe();
  if (!special.name.empty()) phrase += fmt::format(", or {}", special.name);
  OptionValue value{.type = type, .range = phrase, .bounds = range};
  value.parse = [=](Config& config, std::string_view option, const std::string& text) {
    if (!special.name.empty() && text == special.name) {
      member(config) = special.value;
      return;
    }
    const Parsed number = parse_number(option, text, phrase);
    if (!range.contains(static_cast<long double>(number))) fail_value(option, text, phrase);
    member(config) = static_cast<T>(number);
    core::check(static_cast<Parsed>(member(config)) == number, "the bounds fit the type");
  };
  value.print = [=](const Config& config) {
    const bool is_special = !special.name.empty() && member(config) == special.value;
    return is_special ? std::string(special.name) : fmt::format("{}", member(config));
  };
  return value;
}

}  // namespace

bool Range::contains(long double value) const {
  return value >= least && (includes_most ? value <= most : value < most);
}

std::string Range::describe() const {
  // Bounds are printed as integers if they are integers: 1000000000, not 1e+09.
  const auto bound = [](double value) {
    return value == std::floor(value) && value < 1e20 ? fmt::format("{:.0f}", value)
                                                      : fmt::format("{:.6g}", value);
  };
  return fmt::format("from {} to {}{}", bound(least), includes_most ? "" : "below ", bound(most));
}

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
  return number<std::uint64_t>("bytes", member, range, {}, parse_bytes);
}

OptionValue text(Member<std::string> member) {
  OptionValue value{.type = "text"};
  value.parse = [member](Config& config, std::string_view, const std::string& text) {
    member(config) = text;
  };
  value.print = [member](const Config& config) { return member(config); };
  return value;
}

OptionValue path(Member<std::string> member) {
  OptionValue value = text(member);
  value.type = "path";
  value.parse = [member](Config& config, std::string_view option, const std::string& text) {
    member(config) = parse_path(option, text);
  };
  return value;
}

OptionValue data_source(Member<std::string> member) {
  OptionValue value = text(member);
  value.parse = [member](Config& config, std::string_view option, const std::string& text) {
    const std::size_t colon = text.find(':');
    const bool has_name = colon != text.npos && text.substr(colon, 3) != "://";
    const std::size_t begin = has_name ? colon + 1 : 0;
    member(config) = text.substr(0, begin) + parse_path(option, text.substr(begin));
  };
  return value;
}

OptionValue one_of(Member<std::string> member, std::vector<std::string> names) {
  OptionValue value = text(member);
  value.type = "choice";
  for (auto& name : names) value.names.push_back({std::move(name), ""});
  value.parse = [member, names = value.names](Config& config, std::string_view option,
                                              const std::string& text) {
    if (std::ranges::find(names, text, &ValueName::name) == names.end()) {
      fail_choice(option, text, names);
    }
    member(config) = text;
  };
  return value;
}

OptionValue flag(Member<bool> member) {
  OptionValue value{.type = "flag"};
  value.parse = [member](Config& config, std::string_view option, const std::string& text) {
    member(config) = parse_flag(option, text);
  };
  value.print = [member](const Config& config) { return fmt::format("{}", member(config)); };
  return value;
}

OptionValue checkpoint_interval() {
  OptionValue value{
      .type = "interval",
      .range = fmt::format("at most {:.0f} s or {} steps", limits::seconds, limits::steps)};
  value.parse = [](Config& config, std::string_view option, const std::string& text) {
    const Interval interval = parse_interval(option, text);
    config.checkpoint.seconds = interval.seconds;
    config.checkpoint.steps = interval.steps;
  };
  value.print = [](const Config& config) {
    return config.checkpoint.steps > 0 ? fmt::format("{}-steps", config.checkpoint.steps)
                                       : fmt::format("{}s", config.checkpoint.seconds);
  };
  return value;
}

OptionValue option_file() {
  OptionValue value{.type = "path"};
  value.parse = [](Config&, std::string_view, const std::string&) {};
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
