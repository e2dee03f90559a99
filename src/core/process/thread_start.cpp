// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/thread_start.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <cstdlib>
#include <latch>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/process/limits.hpp"

namespace lockstep::core {

void require_threads(int count, std::size_t stack_bytes) {
  struct Attributes {
    Attributes() { pthread_attr_init(&value); }
    ~Attributes() { pthread_attr_destroy(&value); }
    pthread_attr_t value{};
  } attributes;
  // A size below the minimum is refused here; the threads then have the default size.
  if (stack_bytes > 0) pthread_attr_setstacksize(&attributes.value, stack_bytes);
  std::latch all_are_started(1);
  const auto wait = [](void* latch) -> void* {
    static_cast<std::latch*>(latch)->wait();
    return nullptr;
  };
  std::vector<pthread_t> threads;
  int failure = 0;
  while (static_cast<int>(threads.size()) < count && failure == 0) {
    pthread_t thread{};
    failure = pthread_create(&thread, &attributes.value, wait, &all_are_started);
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
  if (const char* const stack = std::getenv(openmp_stack_variable))
    limits += fmt::format("; {}={}", openmp_stack_variable, stack);
  fail(ExitStatus::out_of_memory,
       fmt::format("the system starts no further thread ({}); raise the limit, or use fewer ranks "
                   "per host or a smaller --threads and --loader-threads",
                   limits));
}

}  // namespace lockstep::core
