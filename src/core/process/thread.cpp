// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/thread.hpp"

#include <fmt/format.h>
#include <omp.h>
#include <pthread.h>

#include <cstdlib>
#include <latch>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/process/limits.hpp"

namespace lockstep::core {

void require_threads(int count) {
  std::latch all_are_started(1);
  const auto wait = [](void* latch) -> void* {
    static_cast<std::latch*>(latch)->wait();
    return nullptr;
  };
  std::vector<pthread_t> threads;
  int failure = 0;
  while (static_cast<int>(threads.size()) < count && failure == 0) {
    pthread_t thread{};
    failure = pthread_create(&thread, nullptr, wait, &all_are_started);
    if (failure == 0) threads.push_back(thread);
  }
  all_are_started.count_down();
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  if (failure != 0) fail_to_start_thread();
}

void fail_to_start_thread() {
  std::string limits = "one of the limits of threads or of memory is reached";
  for (const Limit& limit : thread_limits())
    limits += fmt::format("; {} permits {:.0f}", limit.source, limit.value);
  fail(ExitStatus::out_of_memory,
       fmt::format("the system starts no further thread ({}); raise the limit, or use fewer ranks "
                   "per host or a smaller --threads and --loader-threads",
                   limits));
}

int openmp_requested_threads() {
  const char* const variable = std::getenv("OMP_NUM_THREADS");
  return variable == nullptr || *variable == '\0' ? 0 : omp_get_max_threads();
}

int openmp_thread_limit() { return omp_get_thread_limit(); }

void start_openmp_threads(int threads) {
  const int limit = openmp_thread_limit();
  if (threads > limit) {
    fail(
        ExitStatus::usage,
        fmt::format("{} threads per rank are requested, but OMP_THREAD_LIMIT permits {}; unset it, "
                    "or use --threads {}",
                    threads, limit, limit));
  }
  omp_set_dynamic(0);
  if (omp_get_max_active_levels() < 1) omp_set_max_active_levels(1);
  // OpenMP ends the process if a thread cannot be started.
  require_threads(threads - 1);
  int started = 0;
#pragma omp parallel num_threads(threads)
  {
#pragma omp single
    started = omp_get_num_threads();
  }
  check(started == threads, "OpenMP starts all threads that its limit permits");
}

}  // namespace lockstep::core
