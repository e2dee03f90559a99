// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/allocation_limit.hpp"

#include <sys/resource.h>

#include <algorithm>

#include "lockstep/core/error.hpp"
#include "lockstep/core/process/system.hpp"

namespace lockstep::core {

namespace {

rlimit limit_now() {
  rlimit limit{};
  check(::getrlimit(RLIMIT_DATA, &limit) == 0, "the limit of the data segment is readable");
  return limit;
}

}  // namespace

AllocationLimit::AllocationLimit(std::uint64_t bytes) {
  rlimit limit = limit_now();
  before_ = limit.rlim_cur;
  const std::uint64_t allocated = allocated_memory().data;
  const std::uint64_t most = std::min<std::uint64_t>(limit.rlim_cur, limit.rlim_max);
  limit.rlim_cur = bytes < most - std::min(most, allocated) ? allocated + bytes : most;
  check(::setrlimit(RLIMIT_DATA, &limit) == 0, "a process may lower its limits");
}

AllocationLimit::~AllocationLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = before_;
  ::setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace lockstep::core
