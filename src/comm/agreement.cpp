// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/agreement.hpp"

#include "lockstep/comm/messages.hpp"

namespace lockstep::comm {

namespace {

struct Failure {
  core::ExitStatus status = core::ExitStatus::internal;
  std::string message;

  static auto fields(auto& self) { return std::tie(self.status, self.message); }
};

}  // namespace

void agree(Communicator& communicator, const std::optional<core::Error>& failure) {
  std::optional<Failure> own;
  if (failure) own = {failure->status(), failure->what()};
  const auto failures = all_gather(communicator, own);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank]) continue;
    throw AgreedError(failures[rank]->status, failures[rank]->message, static_cast<int>(rank),
                      communicator.rank());
  }
}

void fail_together(const Communicator& communicator, core::ExitStatus status,
                   const std::string& message) {
  constexpr int reporter = 0;
  throw AgreedError(status, message, reporter, communicator.rank());
}

}  // namespace lockstep::comm
