// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/agreement.hpp"

namespace lockstep::train {

using comm::agree;
using comm::AgreedError;
using comm::outcome_of;
using comm::together;

/// Runs `work`, which is collective over disjoint groups of ranks, each of which agrees on its own
/// errors, and agrees on these errors over all groups. The rank that reports the error in its group
/// reports it. Other errors pass, because the ranks of the group may still wait in `work`; they end
/// the program on all ranks. Collective: all ranks must call this.
template <class Work>
void together_over_groups(comm::Communicator& world, Work&& work) {
  std::optional<core::Error> failure;
  try {
    std::forward<Work>(work)();
  } catch (const AgreedError& error) {
    if (error.is_reporting()) failure.emplace(error.status(), error.what());
  }
  agree(world, failure);
}

/// Returns the number of a signal (`core::StopSignal`) that a rank has received; 0 if none has.
/// Collective: all ranks must call this.
int agreed_signal(comm::Communicator& communicator);

/// Pairs of name and value.
using Entries = std::vector<std::pair<std::string, std::string>>;

/// Throws `AgreedError` (usage) if the entries `mine` are not equal on all ranks; the message names
/// the first rank that differs from rank 0 and its first entry that differs. `what`: the name of
/// the entries in the message, for example "options" or "data". Collective: all ranks must call
/// this.
void require_equal(comm::Communicator& communicator, const Entries& mine, const std::string& what);

}  // namespace lockstep::train
