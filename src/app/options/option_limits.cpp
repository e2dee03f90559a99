// SPDX-License-Identifier: BSD-3-Clause
#include "option_limits.hpp"

#include <fmt/format.h>

#include <cmath>

namespace lockstep::app {

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

}  // namespace lockstep::app
