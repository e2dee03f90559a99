#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/agreement.hpp"

namespace lockstep::train {

using comm::agree;
using comm::AgreedError;
using comm::outcome_of;
using comm::together;

/// Pairs of name and value.
using Entries = std::vector<std::pair<std::string, std::string>>;

/// Throws `AgreedError` (usage) if the entries `mine` are not equal on all ranks; the message names
/// the first rank that differs from rank 0 and its first entry that differs. `what`: the name of
/// the entries in the message, for example "options" or "data". Collective: all ranks must call
/// this.
void require_equal(comm::Communicator& communicator, const Entries& mine, const std::string& what);

}  // namespace lockstep::train
