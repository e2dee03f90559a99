// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

namespace lockstep::backend::cuda {

/// Returns `bytes` rounded up to a multiple of 256. Blocks that share one device allocation begin
/// at such multiples, which satisfies the alignment requirements of all kernels.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace lockstep::backend::cuda
