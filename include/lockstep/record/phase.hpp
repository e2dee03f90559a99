#pragma once

#include <array>
#include <chrono>
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

/// Splits a step into phases with one clock reading per phase: `begin`, then `end(phase)` after
/// each.
class StepTimer {
 public:
  void begin() {
    seconds_ = {};
    last_ = std::chrono::steady_clock::now();
  }

  /// What has passed since the last reading belongs to `phase`.
  void end(Phase phase) {
    const auto now = std::chrono::steady_clock::now();
    seconds_[static_cast<std::size_t>(phase)] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

  const PhaseSeconds& seconds() const { return seconds_; }

 private:
  PhaseSeconds seconds_{};
  std::chrono::steady_clock::time_point last_;
};

}  // namespace lockstep::record
