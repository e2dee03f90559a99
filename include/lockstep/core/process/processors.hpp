// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <set>
#include <string>

// The logical processors of this host on which threads run. With simultaneous multithreading,
// several processors (hardware threads) share a physical core.
namespace lockstep::core {

/// Returns the processors that the calling thread may use; empty if the system does not tell.
std::set<int> allowed_processors();

/// Lets the calling thread, and the threads that it starts, run on these processors only. Returns
/// false if the system does not permit it.
bool bind_to(const std::set<int>& processors);

/// Returns the physical core of a processor, named by the lowest number of its processors; the
/// processor itself if the system does not tell.
int core_of(int processor);

/// Convert between sets of processors and texts such as "0-3,8" for 0, 1, 2, 3 and 8.
std::string processor_list(const std::set<int>& processors);
std::set<int> processors_in(const std::string& list);

}  // namespace lockstep::core
