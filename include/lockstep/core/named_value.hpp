// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string_view>

#include "lockstep/core/error.hpp"

namespace lockstep::core {

/// A value of an enumeration that users can select, and its texts. Each such enumeration has one
/// table of them, which the function `named_values(Enum)` in the namespace of the enumeration
/// returns as a span. The table is used to parse, to print and to document the values.
template <class Enum>
struct NamedValue {
  Enum value;
  std::string_view name;       ///< on the command line, in messages and in files
  std::string_view help = {};  ///< meaning of the value; empty if the name says it
};

/// Returns the name of `value`. Throws `Error` (internal) if its table does not contain it.
template <class Enum>
std::string_view name(const Enum& value) {
  for (const auto& named : named_values(value)) {
    if (named.value == value) return named.name;
  }
  check(false, "a value without a name");
  return {};
}

/// Returns the value with the name `text`; nothing if there is none.
template <class Enum>
std::optional<Enum> value_of(std::string_view text) {
  for (const auto& named : named_values(Enum{})) {
    if (named.name == text) return named.value;
  }
  return std::nullopt;
}

}  // namespace lockstep::core
