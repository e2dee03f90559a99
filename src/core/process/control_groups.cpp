// SPDX-License-Identifier: BSD-3-Clause
#include "control_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

namespace lockstep::core {

namespace {

namespace fs = std::filesystem;

/// A mounted hierarchy of control groups.
struct Mount {
  std::string group;  ///< the group at the mount point
  fs::path point;
  int version = 2;
};

bool contains(std::string_view list, std::string_view name) {
  return fmt::format(",{},", list).find(fmt::format(",{},", name)) != std::string::npos;
}

/// Replaces the octal codes of blanks and similar characters, for example "\040".
std::string decode(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    const std::string_view digits = text.substr(i + 1, 3);
    const bool is_code =
        text[i] == '\\' && digits.size() == 3 &&
        std::from_chars(digits.data(), digits.data() + 3, code, 8).ptr == digits.data() + 3;
    decoded += is_code ? static_cast<char>(code) : text[i];
    i += is_code ? 3 : 0;
  }
  return decoded;
}

/// Returns the mounted hierarchies of version 2, and those of version 1 with the controller.
std::vector<Mount> mounts_of(const fs::path& root, std::string_view controller) {
  std::vector<Mount> mounts;
  std::ifstream file(root / "proc/self/mountinfo");
  // ID PARENT DEVICE ROOT POINT OPTIONS [FIELD...] - TYPE SOURCE OPTIONS
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    const std::vector<std::string> words(std::istream_iterator<std::string>(fields), {});
    const auto dash = std::ranges::find(words, "-");
    if (words.size() < 6 || std::distance(dash, words.end()) < 4) continue;
    const bool is_second = dash[1] == "cgroup2";
    if (is_second || (dash[1] == "cgroup" && contains(dash[3], controller)))
      mounts.push_back(
          {decode(words[3]), root / fs::path(decode(words[4])).relative_path(), is_second ? 2 : 1});
  }
  if (mounts.empty()) {
    const fs::path usual = root / "sys/fs/cgroup";
    mounts = {{"/", usual, 2}, {"/", usual / controller, 1}};
  }
  return mounts;
}

/// Returns the groups below the mount point: the longest end of `path` that exists, and its
/// parents.
std::vector<ControlGroup> groups_in(const Mount& mount, std::string path) {
  if (path.starts_with("/..")) path.clear();  // outside of the namespace
  const bool is_below = mount.group.size() > 1 && (path + '/').starts_with(mount.group + '/');
  if (is_below) path.erase(0, mount.group.size());
  std::error_code ignored;
  while (!path.empty() && !fs::is_directory(mount.point.string() + path, ignored))
    path.erase(0, path.find('/', 1));
  std::vector<ControlGroup> groups;
  for (auto group = fs::path(path).relative_path(); !group.empty(); group = group.parent_path())
    groups.push_back({mount.point / group, mount.version});
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
    std::vector<ControlGroup> most;  // of the mounts, which may show different parts
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
