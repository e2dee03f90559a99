// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

#include "invocation.hpp"
#include "lockstep/core/progress.hpp"

namespace lockstep::app {

/// Parts of the program that a test program decorates.
struct ProcessParts {
  /// Returns the monitor that is notified of the progress of this rank, and notifies `watchdog`.
  std::function<core::ProgressMonitor&(core::ProgressMonitor& watchdog)> monitor = std::identity{};
  /// Creates the backend of this rank.
  BackendFactory make_backend = [](const backend::DeviceOptions& options) {
    return backend::make_backend(options);
  };
};

/// Runs the program with its watchdog, signal handlers and MPI, and returns the exit status.
int run_process(int argc, char** argv, const ProcessParts& parts = {});

}  // namespace lockstep::app
