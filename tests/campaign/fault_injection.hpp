// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/named_value.hpp"
#include "lockstep/core/progress.hpp"

namespace lockstep::campaign {

/// Faults that `--inject` causes, to test how a run ends.
enum class FaultKind {
  kill,
  segv,
  abort,
  exit,
  stop,
  stall,
  finish,
  slow,
  throw_exception,
  oom,
  skip,
  flip,
  nan,
};
std::span<const core::NamedValue<FaultKind>> named_values(FaultKind);

/// A fault of one rank: KIND:RANK:STEP[:PHASE].
struct Fault {
  FaultKind kind{};
  int rank = 0;
  std::int64_t step = 0;  ///< counted from 1; 0: before the first step
  std::string phase{};    ///< name of the activity at whose beginning the fault occurs
};

/// Returns the faults of a list of KIND:RANK:STEP[:PHASE] that is separated by commas; the default
/// phase is `start` for step 0 and `forward` for other steps. Throws `Error` (usage) if the text is
/// invalid.
std::vector<Fault> parse_faults(std::string_view list);

/// Notifies another monitor of the progress of this rank, and causes the faults of this rank when
/// their phase begins.
class FaultInjector final : public core::ProgressMonitor {
 public:
  /// `rank`: the rank of this process, whose faults are those of `faults`.
  FaultInjector(std::span<const Fault> faults, int rank);

  /// Sets the monitor that is notified; it must outlive this object.
  void set_monitor(core::ProgressMonitor& monitor) { monitor_ = &monitor; }
  /// Sets the state that `flip` and `nan` damage; it must be that of the last training plan.
  void set_state(const backend::Backend& backend, backend::ModelState& state) {
    backend_ = &backend;
    state_ = &state;
  }

  /// May not return, or throw an exception: see `FaultKind`.
  void begin(core::Activity activity, std::int64_t step) override;
  void advance() noexcept override { monitor_->advance(); }

  /// Returns whether the collective operation that begins now is to be skipped, once for each fault
  /// `skip`.
  bool takes_skip() { return std::exchange(is_skipping_, false); }

 private:
  void cause(const Fault& fault);
  void damage_parameters(const Fault& fault);

  core::ProgressMonitor* monitor_ = nullptr;
  const backend::Backend* backend_ = nullptr;
  backend::ModelState* state_ = nullptr;
  std::vector<Fault> faults_;  ///< of this rank that have not occurred; `slow` remains
  std::int64_t step_ = 0;      ///< the latest step that has begun
  bool is_skipping_ = false;
};

}  // namespace lockstep::campaign
