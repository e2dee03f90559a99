// SPDX-License-Identifier: BSD-3-Clause
#include "control_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace lockstep::core {

namespace {

namespace fs = std::filesystem;

/// A mounted hierarchy of control groups.
struct Mount {
  std::string group;  ///< the group that is the root of the mount
  fs::path point;
  int version = 2;
  std::string controllers;  ///< of version 1: "cpu,cpuacct", among other options
};

bool contains(std::string_view list, std::string_view name) {
  return fmt::format(",{},", list).find(fmt::format(",{},", name)) != std::string::npos;
}

/// Replaces the octal codes of blanks and similar characters, for example "\040".
std::string decode(const std::string& text) {
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    int code = 0;
    const char* const digits = text.data() + at + 1;
    if (text[at] == '\\' && at + 3 < text.size() &&
        std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3) {
      decoded += static_cast<char>(code);
      at += 3;
    } else {
      decoded += text[at];
    }
  }
  return decoded;
}

std::vector<Mount> mounts_of(const fs::path& root, std::string_view controller) {
  std::vector<Mount> mounts;
  std::ifstream file(root / "proc/self/mountinfo");
  // ID PARENT DEVICE ROOT POINT OPTIONS [FIELD...] - TYPE SOURCE OPTIONS
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    const std::vector<std::string> words(std::istream_iterator<std::string>(fields), {});
    const auto dash = std::ranges::find(words, "-");
    if (words.size() < 6 || std::distance(dash, words.end()) < 4) continue;
    const int version = dash[1] == "cgroup2" ? 2 : dash[1] == "cgroup" ? 1 : 0;
    if (version == 0 || (version == 1 && !contains(dash[3], controller))) continue;
    mounts.push_back(
        {decode(words[3]), root / fs::path(decode(words[4])).relative_path(), version, dash[3]});
  }
  if (mounts.empty()) {
    const fs::path usual = root / "sys/fs/cgroup";
    mounts = {{"/", usual, 2, ""}, {"/", usual / controller, 1, ""}};
  }
  return mounts;
}

/// Returns the folders of `group` and its parents below the mount point that exist.
std::vector<ControlGroup> groups_in(const Mount& mount, const fs::path& group) {
  const fs::path below = group.lexically_relative(mount.group);
  const bool is_visible = !below.empty() && *below.begin() != "..";
  std::vector<ControlGroup> groups;
  for (fs::path part = is_visible && below != "." ? below : fs::path(); !part.empty();
       part = part.parent_path()) {
    std::error_code ignored;
    if (fs::is_directory(mount.point / part, ignored))
      groups.push_back({mount.point / part, mount.version});
  }
  groups.push_back({mount.point, mount.version});
  return groups;
}

}  // namespace

std::vector<ControlGroup> control_groups(const fs::path& root, std::string_view controller) {
  const std::vector<Mount> mounts = mounts_of(root, controller);
  std::vector<ControlGroup> all;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // NUMBER:CONTROLLERS:PATH
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const int version = controllers.empty() ? 2 : 1;
    if (version == 1 && !contains(controllers, controller)) continue;
    // A hierarchy may be mounted at several points, which show different parts of it.
    std::vector<ControlGroup> most;
    for (const Mount& mount : mounts) {
      if (mount.version != version) continue;
      auto groups = groups_in(mount, line.substr(second + 1));
      if (groups.size() > most.size()) most = std::move(groups);
    }
    all.insert(all.end(), most.begin(), most.end());
  }
  return all;
}

}  // namespace lockstep::core
