// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/replica.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::train {

/// Node id of work that is not part of an operation of the graph: the copy of a batch, waits for
/// communication, the update.
inline constexpr graph::NodeId no_node = -1;

/// An operation in one phase of a step: node of the graph, or `no_node`, and phase.
using OperationKey = std::pair<graph::NodeId, std::string_view>;

/// Execution of an operation, in seconds since the start of the step.
struct OperationTime {
  OperationKey key;
  double begin = 0, end = 0;
};

/// Records a timestamp at the end of each operation of a step. Like the steps of `StepClock`, a
/// step has two parts: the host records the timestamps of the first part in every step; those of
/// the second part may be captured in a CUDA graph and replayed. Disabled at first: then it records
/// nothing.
class OperationClock final : public backend::OperationListener {
 public:
  /// Must be called before the first step. `timeline` must outlive the clock's last use. `queue`:
  /// of the device, which may be the host.
  void attach(core::Timeline& timeline, const core::DeviceQueue& queue) {
    timeline_ = &timeline;
    is_on_host_ = queue.is_host();
  }
  void set_enabled(bool is_enabled) { is_enabled_ = is_enabled; }
  bool is_enabled() const { return is_enabled_; }

  void begin() { begin(batch_); }      ///< starts a step; its timeline must have been started
  void begin_work() { begin(work_); }  ///< starts the part that may be captured

  /// Records the end of an operation. `phase` must have static storage duration.
  void ended(graph::NodeId node, std::string_view phase) override;
  bool is_observing() const override { return is_enabled_; }

  /// Returns the listener of a backward pass: `reducer`, or if the clock is enabled and the
  /// computing threads also advance the all-reduces, one that records the end of each call of
  /// `reducer`.
  core::GradientListener& observe(core::GradientListener& reducer);

  /// Returns the operations of the last completed step, in the order of their ends; each begins
  /// where the one before it ended.
  std::vector<OperationTime> times() const;

 private:
  struct Part {
    std::vector<OperationKey> ended;  ///< operations of the last step, in the order of their ends
    std::vector<core::Timestamp> timestamps;  ///< of the end of each operation
  };
  /// Records the time that all-reduces take from the backward pass of a CPU.
  class TimedReducer final : public core::GradientListener {
   public:
    explicit TimedReducer(OperationClock& clock) : clock_(clock) {}
    void set_reducer(core::GradientListener& reducer) { reducer_ = &reducer; }
    void gradients_ready(std::size_t elements) override {
      reducer_->gradients_ready(elements);
      clock_.ended(no_node, "all-reduce progress");
    }

   private:
    core::GradientListener* reducer_ = nullptr;
    OperationClock& clock_;
  };
  void begin(Part& part);

  core::Timeline* timeline_ = nullptr;
  bool is_enabled_ = false;
  Part batch_, work_;
  Part* part_ = &batch_;
  bool is_on_host_ = false;
  TimedReducer timed_{*this};
};

}  // namespace lockstep::train
