#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace lockstep::core {

/// Starts a thread that receives no signals, so that signals interrupt the main thread. `work`
/// takes a `const std::stop_token&`.
template <class Work>
std::jthread start_without_signals(Work work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::jthread thread(std::move(work));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace lockstep::core
