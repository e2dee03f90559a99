// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "guard/early_stop.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/progress.hpp"
#include "options/options.hpp"
#include "standard_output.hpp"

namespace lockstep::app {

using BackendFactory =
    std::function<std::unique_ptr<backend::Backend>(const backend::DeviceOptions& options)>;

/// Arguments of every command.
struct Invocation {
  Options options;         ///< as parsed, not yet resolved
  StoppedCommand stopped;  ///< how a signal ends the command before it has anything to save
  std::string command_line;
  comm::Communicator& communicator;
  StandardOutput& output;
  core::ProgressMonitor* monitor;  ///< notified of this rank's progress
  BackendFactory make_backend;
};

}  // namespace lockstep::app
