#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace lockstep::record {

/// The parts of a training step, in order. Their sum is the step; the training time of the
/// assignment (no data I/O; copies, gradients and update counted) is the sum without `data_wait`.
enum class Phase { data_wait, upload, forward, backward, exposed_communication, update };
inline constexpr std::size_t phase_count = 6;
inline constexpr std::array<std::string_view, phase_count> phase_names{
    "data_wait", "upload", "forward", "backward", "exposed_communication", "update"};

using PhaseSeconds = std::array<double, phase_count>;

}  // namespace lockstep::record
