// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/statistics.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace lockstep::core {

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace lockstep::core
