// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/study/operation_groups.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

namespace lockstep::study {

std::vector<OperationGroup> group_operations(const record::Profile& profile) {
  struct Group : OperationGroup {
    double longest = -1;  ///< time of the longest operation in seconds
  };
  std::map<std::tuple<std::string, std::string, std::string>, Group> groups;
  for (const record::ProfiledOperation& operation : profile.operations) {
    Group& group = groups[{operation.what, operation.phase, operation.implementation}];
    if (operation.seconds[0] > group.longest) {
      group.longest = operation.seconds[0];
      group.ceiling = operation.ceiling;
    }
    group.calls += operation.calls;
    group.flops += operation.flops;
    group.bytes += operation.bytes;
    group.seconds += operation.seconds[0];
    group.bound_seconds += operation.bound_seconds;
  }
  std::vector<OperationGroup> sorted;
  for (auto& [key, group] : groups) {
    std::tie(group.what, group.phase, group.implementation) = key;
    sorted.push_back(std::move(group));
  }
  std::ranges::stable_sort(sorted, std::greater(), &OperationGroup::seconds);
  return sorted;
}

}  // namespace lockstep::study
