// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/process/limits.hpp"
#include "lockstep/record/run_records.hpp"

// The share of a rank in what the ranks of a host have in common.
namespace lockstep::app {

/// The domains of the limits of each rank, as `core::smallest_share` takes them.
using Domains = std::vector<std::vector<std::string>>;

/// Returns the domains of `limits` of all ranks; empty for ranks of other hosts. Collective: all
/// ranks must call this.
Domains gather_domains(comm::Communicator& communicator, const std::vector<core::Limit>& limits);

/// Returns the default number of threads of `rank`: the number of its physical cores divided by the
/// number of ranks on its host with the same processors; at least 1.
int fair_threads(const std::vector<record::RankInfo>& ranks, int rank);

/// Returns the number of threads of `rank` that compile kernels: the number of its processors
/// (hardware threads), or its share in the CPU quotas if that is less, divided by the number of
/// ranks on its host with the same processors; at least 1.
int compiler_threads(const std::vector<record::RankInfo>& ranks, int rank,
                     const std::vector<core::Limit>& quotas, const Domains& domains);

/// The reason of a number of threads that nothing limits.
inline constexpr std::string_view cores_per_rank = "physical cores / ranks";

/// The number of threads of a rank.
struct ThreadCount {
  int threads = 1;
  std::string reason;  ///< what has determined the number
};

/// What limits the default number of threads of a rank.
struct ThreadBounds {
  int requested = 0;                ///< by OMP_NUM_THREADS; 0 if it is not set or invalid
  int limit = 0;                    ///< of OpenMP (OMP_THREAD_LIMIT)
  std::vector<core::Limit> quotas;  ///< CPU quotas
  Domains domains;                  ///< of the quotas of all ranks
};

/// Returns the default number of threads of `rank`: OMP_NUM_THREADS, otherwise `fair_threads` or,
/// if that is less, the share of the rank in a CPU quota; at most OMP_THREAD_LIMIT, and at least 1.
ThreadCount default_threads(const std::vector<record::RankInfo>& ranks, int rank,
                            const ThreadBounds& bounds);

/// Returns a warning that names the first CPU quota that is less than the number of threads that
/// share it; empty if there is none. `threads`: of all ranks.
std::string exceeded_quota(const std::vector<core::Limit>& quotas, const Domains& domains,
                           const std::vector<int>& threads);

/// Returns the processors to which `rank` should be bound, because the launcher has given the same
/// processors to several ranks of its host: the processors of an equal part of their cores. Empty
/// if no other rank has the same processors, or if some part has fewer cores than its rank has
/// threads. `core_of` returns the core of a processor of this host (`core::core_of`).
std::set<int> share_of_processors(const std::vector<record::RankInfo>& ranks,
                                  const std::vector<int>& threads, int rank,
                                  const std::function<int(int)>& core_of);

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
