// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>

namespace lockstep::study {

/// Returns the largest n in [0, most] for which `fits(n)` is true; 0 counts as true. `fits` must be
/// true up to some n and false above it. `guess`: where the search begins; the number of calls
/// grows with the logarithm of the distance from it. `fits` has been called for the result, unless
/// it is 0, and for the result plus 1, unless that exceeds `most`.
std::int64_t find_deepest(std::int64_t guess, std::int64_t most,
                          const std::function<bool(std::int64_t)>& fits);

}  // namespace lockstep::study
