// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace lockstep::core {

/// The folder of a control group of this process.
struct ControlGroup {
  std::filesystem::path folder;
  int version = 2;  ///< of the interface: the files of version 1 have other names
};

/// Returns the control groups whose limits of `controller` ("memory", "cpu", "pids") apply to this
/// process: its own group and all parents that are visible, the own group first. The hierarchies
/// are mounted where /proc/self/mountinfo states; without it, at /sys/fs/cgroup, or
/// /sys/fs/cgroup/CONTROLLER of version 1. In a container a mount point may be the own group or one
/// of its parents: the longest end of the path that exists below it is used. `root`: directory that
/// contains `proc` and `sys`; tests replace it. Source: /proc/self/cgroup (cgroups(7)).
std::vector<ControlGroup> control_groups(const std::filesystem::path& root,
                                         std::string_view controller);

}  // namespace lockstep::core
