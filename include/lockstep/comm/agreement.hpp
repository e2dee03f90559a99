// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "lockstep/comm/agreed_error.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

/// Agrees on the outcome of an operation: `failure` is the error of this rank, or empty if it
/// succeeded. If any rank failed, throws `AgreedError` on all ranks with the status and message of
/// the lowest failing rank, which reports it. Collective: all ranks must call this.
void agree(Communicator& communicator, const std::optional<core::Error>& failure);

/// Throws `AgreedError` with `status` and `message`; rank 0 reports it. For an error that every
/// rank has detected on its own. Sends no messages, but all ranks must call this.
[[noreturn]] void fail_together(const Communicator& communicator, core::ExitStatus status,
                                const std::string& message);

/// Runs `work` and returns its outcome in the form that `agree` takes: empty if it succeeded,
/// otherwise the error. `std::bad_alloc` becomes an error with status out_of_memory, any other
/// `std::exception` one with status internal. Rethrows `AgreedError`, because all ranks know it
/// already.
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

/// Runs `work` on every rank: returns on all ranks if it succeeded on all of them, otherwise throws
/// `AgreedError` on all of them. `work` itself must not be collective. Collective: all ranks must
/// call this.
template <class Work>
void together(Communicator& communicator, Work&& work) {
  agree(communicator, outcome_of(std::forward<Work>(work)));
}

}  // namespace lockstep::comm
