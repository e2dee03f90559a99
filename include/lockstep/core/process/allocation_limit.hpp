// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace lockstep::core {

/// Limits the memory that this process can allocate while the object exists, so that an allocation
/// beyond the limit fails (`Buffer` throws `Error` with status out_of_memory) instead of exhausting
/// the memory of the host. Linux counts private writable memory, whether it is touched or not
/// (RLIMIT_DATA). At most one object may exist at a time.
class AllocationLimit {
 public:
  /// `bytes`: that this process may allocate in addition to what it has allocated. The destructor
  /// restores the limit that was valid before.
  explicit AllocationLimit(std::uint64_t bytes);
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;

 private:
  std::uint64_t before_ = 0;
};

}  // namespace lockstep::core
