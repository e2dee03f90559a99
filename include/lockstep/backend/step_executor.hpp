// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace lockstep::backend {

/// Loss and number of correct predictions, summed over the images of one batch.
struct BatchResult {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t images = 0;
};

/// The part of a training step that is the same in every step: all work between the upload of a
/// batch and the end of the step.
class StepWork {
 public:
  virtual ~StepWork() = default;
  StepWork() = default;
  StepWork(const StepWork&) = delete;
  StepWork& operator=(const StepWork&) = delete;

  /// Executes the work on the host, or queues it on the device; the same work in every call.
  virtual void enqueue() = 0;

  /// Does the same without communication with other ranks, as a warm-up whose results are not used.
  /// The default does nothing: there is no warm-up.
  virtual void enqueue_without_communication() {}

  /// Returns whether the device may capture the work once (CUDA graph) and replay it.
  virtual bool is_capturable() const { return true; }

  /// Called repeatedly while the host waits for the device; throws to end the wait.
  virtual void throw_if_failed() {}
};

/// Ability of an executor: it captures the work (CUDA graph) and replays it.
class StepCaptures {
 public:
  /// Prepare the steps after the construction of the executor, in this order; all are collective if
  /// the work is. The construction and each call of `capture` allocate memory, so the ranks must
  /// agree after each of them whether it has failed.
  virtual void rehearse() = 0;  ///< executes the work once, before it is captured
  virtual bool capture() = 0;   ///< captures the work once; returns whether it must be called again

  /// Exchanges what was captured with a second set, which is initially empty and which `capture`
  /// fills: the same work in another variant, for example with more timestamps. No step may be in
  /// flight.
  virtual void swap() = 0;

 protected:
  ~StepCaptures() = default;
};

/// Executes the training steps of a plan, eagerly or by replaying a captured step. On a device that
/// works asynchronously, several steps can be in flight. A step consists of `begin`, the upload of
/// the batch with its timestamps, and `run`; `collect` follows later.
///
/// An executor owns the work. A derived class that captures it destroys what it captured before the
/// base class destroys the work: a CUDA graph that contains all-reduces is destroyed before their
/// communicator, which the reducer of the work owns.
class StepExecutor {
 public:
  explicit StepExecutor(std::unique_ptr<StepWork> work) : work_(std::move(work)) {}
  virtual ~StepExecutor() = default;
  StepExecutor(const StepExecutor&) = delete;
  StepExecutor& operator=(const StepExecutor&) = delete;

  virtual void begin() = 0;
  virtual void run() = 0;

  /// Waits for the oldest step that was run and not yet collected; returns its result. The timeline
  /// of the plan then holds the timestamps of this step.
  virtual BatchResult collect() = 0;

  /// Returns the number of steps that may be in flight; 1 if `run` is synchronous.
  virtual int depth() const { return 1; }

  /// Returns the captured steps of the executor; null if it captures none.
  virtual StepCaptures* captures() { return nullptr; }

 protected:
  StepWork& work() { return *work_; }

 private:
  std::unique_ptr<StepWork> work_;
};

}  // namespace lockstep::backend
