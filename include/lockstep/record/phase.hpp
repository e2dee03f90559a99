// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace lockstep::record {

/// Phases of a training step, in order. On each rank, the duration of a step is the sum of its
/// phases. Training time is the sum without `data_wait`: it includes copies, gradients and the
/// update, but no data I/O.
enum class Phase { data_wait, upload, forward, backward, exposed_communication, update };
inline constexpr std::size_t phase_count = 6;
inline constexpr std::array<std::string_view, phase_count> phase_names{
    "data_wait", "upload", "forward", "backward", "exposed_communication", "update"};

using PhaseSeconds = std::array<double, phase_count>;

}  // namespace lockstep::record
