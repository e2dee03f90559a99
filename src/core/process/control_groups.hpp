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
/// process: its own group and all parents that are visible, the own group first. In a container the
/// path of the own group may not be visible; the mount point is then the first group. `root`:
/// directory that contains `proc` and `sys`; tests replace it. Source: /proc/self/cgroup and
/// /proc/self/mountinfo (cgroups(7)).
std::vector<ControlGroup> control_groups(const std::filesystem::path& root,
                                         std::string_view controller);

}  // namespace lockstep::core
