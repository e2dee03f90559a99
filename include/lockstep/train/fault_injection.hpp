#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/named_value.hpp"
#include "lockstep/core/progress.hpp"

namespace lockstep::backend {
class Backend;
struct ModelState;
}  // namespace lockstep::backend

namespace lockstep::train {

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
  std::string phase{};    ///< a name of `fault_phases`; empty for faults without a phase

  bool operator==(const Fault&) const = default;
};

/// Name of a phase in `--inject`, and the activity (`core::ProgressMonitor`) at whose beginning the
/// fault occurs.
struct FaultPhase {
  std::string_view name;
  core::Activity activity;
};
std::span<const FaultPhase> fault_phases();

/// Converts KIND:RANK:STEP[:PHASE] to a fault; the default phase is `start` for step 0 and
/// `forward` for other steps. Throws `Error` (usage) if the text is invalid.
Fault parse_fault(std::string_view text);
/// Returns the text that `parse_fault` accepts.
std::string to_text(const Fault& fault);

/// Notifies another monitor of the progress of this rank, and causes the faults of this rank that
/// concern the process when their phase begins. Constructed only if there are faults.
class FaultInjector final : public core::ProgressMonitor {
 public:
  /// `monitor` must outlive this object. `rank`: the rank of this process.
  FaultInjector(core::ProgressMonitor& monitor, std::span<const Fault> faults, int rank);

  /// May not return, or throw an exception: see `FaultKind`.
  void begin(core::Activity activity, std::int64_t step) override;
  void advance() noexcept override { monitor_.advance(); }

 private:
  core::ProgressMonitor& monitor_;
  std::vector<Fault> faults_;  ///< of this rank that have not occurred; `slow` remains
  std::int64_t step_ = 0;      ///< the latest step that has begun
};

/// Returns whether `faults` contains `kind` for `rank` in step `step`, and then logs that it is
/// injected.
bool inject_if_due(std::span<const Fault> faults, FaultKind kind, int rank, std::int64_t step);

/// Changes the parameters of this rank as the faults `flip` and `nan` of step `step` require; waits
/// for all work on the device if there is such a fault.
void damage_parameters(std::span<const Fault> faults, int rank, std::int64_t step,
                       const backend::Backend& backend, backend::ModelState& state);

}  // namespace lockstep::train
