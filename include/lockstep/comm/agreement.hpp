#pragma once

#include <optional>
#include <string>
#include <utility>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

/// A failure that all ranks know of, so that each can leave by itself and nobody waits. One of them
/// says why.
class AgreedError : public core::Error {
 public:
  AgreedError(core::ExitStatus status, const std::string& message, int speaker, int rank)
      : core::Error(status, message), speaks_(speaker == rank) {}
  bool speaks() const { return speaks_; }

 private:
  bool speaks_;
};

/// Tells all ranks how this one fared. Where any failed, throws `AgreedError` on every rank with
/// the first failing rank's status and message. Collective.
void agree(Communicator& communicator, const std::optional<core::Error>& failure);

/// Throws `AgreedError` with `status` and `message`; rank 0 prints it. For a failure that all ranks
/// have found by themselves. Collective in effect: all ranks must throw.
[[noreturn]] void fail_together(const Communicator& communicator, core::ExitStatus status,
                                const std::string& message);

/// This rank's outcome of `work` as `agree` takes it: nothing, or why it failed.
template <class Work>
std::optional<core::Error> outcome_of(Work&& work) {
  try {
    std::forward<Work>(work)();
    return std::nullopt;
  } catch (const AgreedError&) {
    throw;
  } catch (const core::Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return core::Error(core::ExitStatus::out_of_memory,
                       "no memory left on this host; use a smaller batch or fewer ranks per host");
  } catch (const std::exception& error) {
    return core::Error(core::ExitStatus::internal,
                       std::string("internal error: ") + error.what() + "; please report it");
  }
}

/// Does `work`, which is not collective, on every rank: it succeeds on all of them or throws
/// `AgreedError` on all of them. Collective.
template <class Work>
void together(Communicator& communicator, Work&& work) {
  agree(communicator, outcome_of(std::forward<Work>(work)));
}

}  // namespace lockstep::comm
