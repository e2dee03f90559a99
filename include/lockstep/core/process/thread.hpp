// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <signal.h>

#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/core/process/openmp.hpp"
#include "lockstep/core/process/processors.hpp"
#include "lockstep/core/process/thread_start.hpp"

namespace lockstep::core {

/// Starts a thread that assists the main thread. It receives no signals of other processes, so that
/// these interrupt the main thread. It may use the processors of all OpenMP threads, also if OpenMP
/// has bound the main thread to one of them. `work` takes a `const std::stop_token&`. Throws
/// `Error` (out_of_memory) if the system does not permit a further thread.
template <class Work>
std::jthread start_helper(Work work) {
  struct SignalMask {
    sigset_t before;
    SignalMask() {
      sigset_t blocked;
      sigfillset(&blocked);
      // If the thread itself causes one of these while it is blocked, the kernel ends the process
      // without calling the handler.
      for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
        sigdelset(&blocked, number);
      pthread_sigmask(SIG_SETMASK, &blocked, &before);
    }
    ~SignalMask() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  };
  const SignalMask mask;  // the thread inherits it
  const std::set<int> places = openmp_binds_threads() ? thread_processors() : std::set<int>{};
  try {
    return std::jthread([work = std::move(work), places](const std::stop_token& stop) mutable {
      // If binding fails, the thread keeps the processors of the caller.
      if (!places.empty()) bind_to(places);
      work(stop);
    });
  } catch (const std::system_error&) {
    fail_to_start_thread();
  }
}

}  // namespace lockstep::core
