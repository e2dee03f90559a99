// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

#include "device/device.hpp"

namespace lockstep::backend::cuda {

/// A second stream for work of a plan that does not delay the operations that follow it. On GPUs
/// with more than two priorities, its priority is lower than that of the compute stream, so that it
/// uses the multiprocessors that the compute stream leaves free. Both streams can be captured into
/// one CUDA graph.
class SideStream {
 public:
  /// The target must be present and outlive this object. Throws as `core::check_cuda`.
  explicit SideStream(const Target& target)
      : target_(target), stream_(core::make_stream()), begin_(core::make_event()) {}

  /// Lets this stream wait for everything that is queued on the compute stream.
  void fork() const;

  /// Queues `work` on this stream, and records `done` behind it. Executions of cuDNN graphs in
  /// `work` go to this stream.
  void run(const std::function<void()>& work, const core::Event& done) const;

  /// Lets the compute stream wait for the `run` that recorded `done` last.
  void join(const core::Event& done) const;

 private:
  const Target& target_;
  core::Stream stream_;
  core::Event begin_;  ///< waits refer to its last record, so one event serves all forks
};

}  // namespace lockstep::backend::cuda
