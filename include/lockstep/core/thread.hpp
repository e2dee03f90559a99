#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace lockstep::core {

/// Starts a thread that receives no signals of other processes, so that these interrupt the main
/// thread. `work` takes a `const std::stop_token&`.
template <class Work>
std::jthread start_without_signals(Work work) {
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
  return std::jthread(std::move(work));
}

}  // namespace lockstep::core
