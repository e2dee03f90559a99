// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <signal.h>

#include <cstddef>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

// The threads of this process, and the logical processors of this host on which they run. With
// simultaneous multithreading, several processors (hardware threads) share a physical core.
namespace lockstep::core {

/// Returns the processors that the calling thread may use; empty if the system does not tell.
std::set<int> allowed_processors();

/// Returns whether OpenMP binds each thread to a place, which the environment requests
/// (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY, KMP_AFFINITY).
bool openmp_binds_threads();

/// Returns the processors of the OpenMP threads of this process: if OpenMP binds its threads, those
/// of all places, because the calling thread is then bound to the first place; otherwise
/// `allowed_processors()`.
std::set<int> thread_processors();

/// Lets the calling thread, and the threads that it starts, run on these processors only. Returns
/// false if the system does not permit it.
bool bind_to(const std::set<int>& processors);

/// Returns the physical core of a processor, named by the lowest number of its processors; the
/// processor itself if the system does not tell.
int core_of(int processor);

/// Convert between sets of processors and texts such as "0-3,8" for 0, 1, 2, 3 and 8.
std::string processor_list(const std::set<int>& processors);
std::set<int> processors_in(const std::string& list);

/// Throws the `Error` (out_of_memory) for a thread that the system does not permit; the message has
/// the limits of threads.
[[noreturn]] void fail_to_start_thread();

/// Starts and ends `count` threads that exist at the same time, for a library that would
/// end the process if it could not start its threads. `stack_bytes`: 0 for the default. Throws
/// `Error` (out_of_memory) if the system does not permit them.
void require_threads(int count, std::size_t stack_bytes = 0);

/// Returns the number of threads that OMP_NUM_THREADS requests for parallel regions ("4,2": 4); 0
/// if the variable is not set or invalid.
int openmp_requested_threads();

/// Returns the largest number of threads that OpenMP starts (OMP_THREAD_LIMIT).
int openmp_thread_limit();

/// Starts `threads` threads of OpenMP, which the parallel regions of the calling thread then use.
/// Kernels of oneDNN wait for all threads that they request, so OMP_DYNAMIC and
/// OMP_MAX_ACTIVE_LEVELS=0, with which OpenMP may start fewer, have no effect afterwards. Throws
/// `Error` (usage) if OMP_THREAD_LIMIT does not permit this number, and `Error` (out_of_memory) if
/// the system does not permit further threads.
void start_openmp_threads(int threads);

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
