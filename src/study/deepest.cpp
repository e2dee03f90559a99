// SPDX-License-Identifier: BSD-3-Clause
#include "deepest.hpp"

#include <algorithm>

namespace lockstep::study {

std::int64_t find_deepest(std::int64_t guess, std::int64_t most,
                          const std::function<bool(std::int64_t)>& fits) {
  std::int64_t low = 0, high = most + 1;  // low fits, high does not
  bool found_low = false, found_high = false;
  std::int64_t at = std::clamp<std::int64_t>(guess, 1, most), stride = 1;
  while (low + 1 < high) {
    if (fits(at)) {
      low = at;
      found_low = true;
    } else {
      high = at;
      found_high = true;
    }
    if (found_low && found_high) {
      at = low + (high - low) / 2;
    } else {
      at = found_low ? std::min(low + stride, most) : std::max<std::int64_t>(high - stride, 1);
      stride *= 2;
    }
  }
  return low;
}

}  // namespace lockstep::study
