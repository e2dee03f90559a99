// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/agreement.hpp"

#include <cstddef>
#include <string>
#include <utility>

#include "lockstep/comm/messages.hpp"

namespace lockstep::comm {

void agree(Communicator& communicator, const std::optional<core::Error>& failure) {
  std::pair<core::ExitStatus, std::string> own{core::ExitStatus::done, ""};
  if (failure) own = {failure->status(), failure->what()};
  const auto outcomes = all_gather(communicator, own);
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    const auto& [status, message] = outcomes[rank];
    if (status == core::ExitStatus::done) continue;
    throw AgreedError(status, message, static_cast<int>(rank), communicator.rank());
  }
}

void fail_together(const Communicator& communicator, core::ExitStatus status,
                   const std::string& message) {
  constexpr int reporter = 0;
  throw AgreedError(status, message, reporter, communicator.rank());
}

}  // namespace lockstep::comm
