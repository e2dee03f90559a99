#pragma once

#include <string>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

using comm::agree;
using comm::AgreedError;
using comm::outcome_of;
using comm::together;

/// Throws `AgreedError` (usage) naming the first entry that differs from rank 0's, and the rank.
/// `what`: "options", "data", ... Collective.
void require_equal(comm::Communicator& communicator, const Entries& mine, const std::string& what);

}  // namespace lockstep::train
