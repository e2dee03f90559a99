// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/named_value.hpp"
#include "option_limits.hpp"
#include "option_member.hpp"
#include "options.hpp"

// Types of option values. Each function binds an option to a member of `Options`: it returns how a
// text is converted to the member and back.
namespace lockstep::app {

/// One of the values of an option, as text.
struct ValueName {
  std::string name, help;
};

/// Converts `text` to a number: T is int64_t, uint64_t or double. Throws `Error` (usage) that names
/// option, text and `range`, a phrase for the permitted values. A real number may be infinite or
/// NaN.
template <class T>
T parse_number(std::string_view option, const std::string& text, const std::string& range);

/// Returns a path as the shell would pass it: without blanks at its ends, with ~, ~/, $NAME/ and
/// ${NAME}/ at its start expanded, and without file://. The shell does not expand them in
/// --NAME=~/..., in quotes, in files and in variables. Throws `Error` (usage) for other URLs,
/// ~USER, and variables that are not set.
std::string parse_path(std::string_view option, const std::string& text);

/// The type of an option's value.
struct OptionValue {
  std::string_view type;              ///< "integer", "number", "text", "choice", "flag", ...
  std::string range = {};             ///< the permitted values, if `help` does not name them
  std::vector<ValueName> names = {};  ///< the values, if they are a list of names
  std::optional<Range> bounds = {};   ///< of a number, or of each number of a list
  std::string_view placeholder = {};  ///< for the value in the help, unless the option names one

  /// Converts `text` and stores it. Throws `Error` (usage) if the value is not permitted; the
  /// message names `option` and `text`.
  std::function<void(Options& options, std::string_view option, const std::string& text)> parse =
      {};
  /// Returns the value in the notation that `parse` accepts; null if it is not recorded.
  std::function<std::string(const Options& options)> print = {};

  bool is_flag() const { return type == "flag"; }
};

/// A name for one value of a number, for example "never" for -1; without a name there is none.
template <class T>
struct SpecialValue {
  std::string_view name = {};
  T value{};
};

/// A whole number.
OptionValue integer(Member<int> member, Range range, SpecialValue<int> special = {});
OptionValue integer(Member<std::int64_t> member, Range range,
                    SpecialValue<std::int64_t> special = {});
/// Any integer of 64 bits without sign.
OptionValue seed(Member<std::uint64_t> member);
/// A real number.
OptionValue real(Member<double> member, Range range, SpecialValue<double> special = {});
/// A number of bytes with an optional unit, for example 64K or 8GB. K, M, G, T, Ki, KiB, ... are
/// powers of 1024; KB, MB, ... are powers of 1000. The case of letters does not matter.
OptionValue bytes(Member<std::uint64_t> member, Range range);
/// A number of MiB, or of bytes with a unit as in `bytes`.
OptionValue mib(Member<double> member, Range range, SpecialValue<double> special = {});
/// Any text.
OptionValue text(Member<std::string> member);
/// A path (`parse_path`).
OptionValue path(Member<std::string> member);
/// A dataset: NAME:PATH, or another text.
OptionValue data_source(Member<std::string> member);
/// A text that must be one of `names`.
OptionValue one_of(Member<std::string> member, std::vector<std::string> names);
/// An option without a value. In files and variables, "true", "yes", "on", "1" and an empty text
/// are true; "false", "no", "off" and "0" are false. The case of letters does not matter.
OptionValue flag(Member<bool> member);
/// A time or a number of steps between checkpoints, such as "180s", "3min" or "200-steps".
OptionValue checkpoint_interval();
/// A file from which options are read; it is not part of the options.
OptionValue option_file();

/// Throws `Error` (usage): `text` is not among the names of `values`.
[[noreturn]] void fail_choice(std::string_view option, const std::string& text,
                              const std::vector<ValueName>& values);

/// One of the named values of an enumeration, as in the table `named_values`.
template <class Enum>
OptionValue choice(Member<Enum> member) {
  OptionValue value{.type = "choice", .placeholder = "NAME"};
  for (const auto& named : named_values(Enum{})) {
    value.names.push_back({std::string(named.name), std::string(named.help)});
  }
  value.parse = [member, names = value.names](Options& options, std::string_view option,
                                              const std::string& text) {
    const auto found = core::value_of<Enum>(text);
    if (!found) fail_choice(option, text, names);
    member(options) = *found;
  };
  value.print = [member](const Options& options) {
    return std::string(core::name(member(options)));
  };
  return value;
}

}  // namespace lockstep::app
