#pragma once

#include <set>
#include <string>
#include <vector>

#include "lockstep/record/run_file.hpp"

namespace lockstep::app {

/// Returns the processors in a list such as "0-3,8".
std::set<int> processors(const std::string& cpu_list);

/// Returns the default number of threads of `rank`: the number of its processors divided by the
/// number of ranks on its host with the same processors; at least 1.
int fair_threads(const std::vector<record::RankInfo>& ranks, int rank);

/// Returns a warning that names the first host with more threads than processors; empty if there
/// is none.
std::string oversubscription(const std::vector<record::RankInfo>& ranks,
                             const std::vector<int>& threads);

/// Returns a warning that names the first two ranks that use the same GPU; empty if there are none.
std::string shared_gpu(const std::vector<record::RankInfo>& ranks);

}  // namespace lockstep::app
