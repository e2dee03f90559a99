// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/process/stop_signal.hpp"

namespace lockstep::train {

namespace {

/// Describes the first entry that differs between rank 0 (`first`) and rank `other_rank` (`other`).
std::string difference(const Entries& first, const Entries& other, int other_rank) {
  const auto [a, b] = std::ranges::mismatch(first, other);
  if (a == first.end() || b == other.end())
    return fmt::format("rank {} has other entries than rank 0", other_rank);
  return fmt::format("{} is '{}' on rank 0 but '{}' on rank {}", a->first, a->second, b->second,
                     other_rank);
}

}  // namespace

int agreed_signal(comm::Communicator& communicator) {
  return comm::maximum(communicator, core::StopSignal::number());
}

void require_equal(comm::Communicator& communicator, const Entries& mine, const std::string& what) {
  const std::vector<Entries> entries = comm::all_gather(communicator, mine);
  for (std::size_t rank = 1; rank < entries.size(); ++rank) {
    if (entries[rank] == entries[0]) continue;
    const int other = static_cast<int>(rank);
    throw AgreedError(
        core::ExitStatus::usage,
        fmt::format("the ranks do not have the same {0}: {1}; start all ranks with the same {0}",
                    what, difference(entries[0], entries[rank], other)),
        other, communicator.rank());
  }
}

}  // namespace lockstep::train
