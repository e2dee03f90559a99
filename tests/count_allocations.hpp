// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

// Programs with count_allocations.cpp replace the global operator new by one that counts its calls.
// It does not see memory that libraries allocate with malloc.
namespace lockstep::test {

/// Returns the number of calls of operator new in this program so far, among those that the filter
/// accepts.
long allocations();

/// Returns whether an allocation counts. `caller`: return address of operator new.
using AllocationFilter = bool (*)(const void* caller, std::size_t bytes);

/// Counts only the allocations that `filter` accepts from now on. Without a call, all count.
void count_allocations_if(AllocationFilter filter);

}  // namespace lockstep::test
