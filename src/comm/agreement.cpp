// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/agreement.hpp"

#include "lockstep/comm/messages.hpp"

namespace lockstep::comm {

void agree(Communicator& communicator, const std::optional<core::Error>& failure) {
  std::optional<std::pair<core::ExitStatus, std::string>> own;
  if (failure) own.emplace(failure->status(), failure->what());
  const auto failures = all_gather(communicator, own);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank]) continue;
    const auto& [status, message] = *failures[rank];
    throw AgreedError(status, message, static_cast<int>(rank), communicator.rank());
  }
}

void fail_together(const Communicator& communicator, core::ExitStatus status,
                   const std::string& message) {
  constexpr int reporter = 0;
  throw AgreedError(status, message, reporter, communicator.rank());
}

}  // namespace lockstep::comm
