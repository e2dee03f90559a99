// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/record/run_file.hpp"

namespace lockstep::app {

/// Returns the default number of threads of `rank`: the number of its physical cores divided by the
/// number of ranks on its host with the same processors; at least 1.
int fair_threads(const std::vector<record::RankInfo>& ranks, int rank);

/// Returns the processors to which `rank` should be bound, because the launcher has given the same
/// processors to several ranks of its host: the processors of an equal part of their cores. Empty
/// if no other rank has the same processors, or if some part has fewer cores than its rank has
/// threads. `core_of` returns the core of a processor of this host (`core::core_of`).
std::set<int> share_of_processors(const std::vector<record::RankInfo>& ranks,
                                  const std::vector<int>& threads, int rank,
                                  const std::function<int(int)>& core_of);

/// Throws `Error` (usage) if a rank has so many threads per processor that a step would take
/// minutes, because each parallel loop waits for all of them.
void require_bearable(int threads, const record::RankInfo& rank);

/// Returns a warning that names the first host with more threads than processors or than physical
/// cores; empty if there is none.
std::string oversubscription(const std::vector<record::RankInfo>& ranks,
                             const std::vector<int>& threads);

/// Returns a warning that names the first two ranks whose threads OpenMP binds to common
/// processors; empty if there are none. `binds`: for each rank, whether OpenMP binds its threads.
/// OpenMP assigns the places in the same order in each rank, so ranks with few threads share the
/// first ones.
std::string common_places(const std::vector<record::RankInfo>& ranks,
                          const std::vector<bool>& binds);

/// Returns a warning that names the first two ranks that use the same GPU; empty if there are none.
std::string shared_gpu(const std::vector<record::RankInfo>& ranks);

}  // namespace lockstep::app
