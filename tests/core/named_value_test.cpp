// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/named_value.hpp"

#include <gtest/gtest.h>

#include <span>

namespace lockstep::core {
namespace {

enum class Colour { red, green, unnamed };

std::span<const NamedValue<Colour>> named_values(Colour) {
  static constexpr std::array<NamedValue<Colour>, 2> values{
      {{Colour::red, "red", "the colour of errors"}, {Colour::green, "green"}}};
  return values;
}

TEST(NamedValue, ConvertsBetweenValuesAndNames) {
  EXPECT_EQ(name(Colour::green), "green");
  EXPECT_EQ(value_of<Colour>("red"), Colour::red);
  EXPECT_EQ(value_of<Colour>("blue"), std::nullopt);
  EXPECT_EQ(value_of<Colour>(""), std::nullopt);
}

TEST(NamedValue, AValueWithoutANameIsAnInternalError) {
  EXPECT_THROW(static_cast<void>(name(Colour::unnamed)), Error);
}

}  // namespace
}  // namespace lockstep::core
