// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "winograd_kernels.hpp"

namespace lockstep::backend::cpu::winograd {

/// Matrix product for one frequency: c[row][lane] = sum over channels of a[channel][row] *
/// b[channel][lane]. The rows are the products of `entries` entries from `first_entry` on of a,
/// whose channels are in panels; b and c are single panels.
void multiply(const Panels& a, std::int64_t first_entry, const Panels& b, const Panels& c,
              std::int64_t entries, std::int64_t frequency);
/// Transposed matrix product for one frequency: c[lane of a][lane of b] = sum over the
/// products of the first `entries` entries of a[entry][lane] * b[entry][lane]. The result is
/// written to the entries from `c_entry` on of the single panel c.
void multiply_transposed(const Panels& a, std::int64_t a_panel, const Panels& b,
                         std::int64_t b_panel, const Panels& c, std::int64_t c_entry,
                         std::int64_t entries, std::int64_t frequency);

}  // namespace lockstep::backend::cpu::winograd
