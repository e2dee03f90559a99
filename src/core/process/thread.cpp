// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/thread.hpp"

#include <fmt/format.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <array>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <latch>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/process/limits.hpp"

namespace lockstep::core {

namespace {
/// Mask of 8192 processors, the most that Linux supports on x86; `cpu_set_t` has 1024.
using Mask = std::array<cpu_set_t, 8>;

constexpr const char* stack_variable = "OMP_STACKSIZE";

/// Returns the size of the stacks of OpenMP's threads that OMP_STACKSIZE requests, in bytes: a
/// number with a unit, by default kibibytes; 0 if there is none. OpenMP has no function for it.
std::size_t requested_stack() {
  const char* const variable = std::getenv(stack_variable);
  char* unit = nullptr;
  const std::size_t number = variable == nullptr ? 0 : std::strtoull(variable, &unit, 10);
  if (number == 0) return 0;
  while (*unit == ' ') ++unit;
  switch (*unit) {
    case 'B':
    case 'b': return number;
    case 'M':
    case 'm': return number << 20;
    case 'G':
    case 'g': return number << 30;
    default: return number << 10;
  }
}
}  // namespace

std::set<int> allowed_processors() {
  Mask mask{};
  if (::sched_getaffinity(0, sizeof mask, mask.data()) != 0) return {};
  std::set<int> found;
  for (int processor = 0; processor < static_cast<int>(8 * sizeof mask); ++processor) {
    if (CPU_ISSET_S(processor, sizeof mask, mask.data())) found.insert(processor);
  }
  return found;
}

bool openmp_binds_threads() {
  return omp_get_proc_bind() != omp_proc_bind_false && omp_get_num_places() > 0;
}

std::set<int> thread_processors() {
  if (!openmp_binds_threads()) return allowed_processors();
  std::set<int> found;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> processors(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, processors.data());
    found.insert(processors.begin(), processors.end());
  }
  return found;
}

bool bind_to(const std::set<int>& processors) {
  Mask mask{};
  for (const int processor : processors) CPU_SET_S(processor, sizeof mask, mask.data());
  return ::sched_setaffinity(0, sizeof mask, mask.data()) == 0;
}

int core_of(int processor) {
  std::ifstream file(
      fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", processor));
  int lowest = processor;
  file >> lowest;
  return file ? lowest : processor;
}

std::string processor_list(const std::set<int>& processors) {
  std::string list;
  for (auto first = processors.begin(); first != processors.end();) {
    auto last = first;
    while (std::next(last) != processors.end() && *std::next(last) == *last + 1) ++last;
    if (!list.empty()) list += ',';
    list += first == last ? fmt::format("{}", *first) : fmt::format("{}-{}", *first, *last);
    first = std::next(last);
  }
  return list;
}

std::set<int> processors_in(const std::string& list) {
  std::set<int> found;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    const std::size_t dash = range.find('-');
    const int first = std::stoi(range);
    const int last = dash == std::string::npos ? first : std::stoi(range.substr(dash + 1));
    for (int processor = first; processor <= last; ++processor) found.insert(processor);
  }
  return found;
}

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
  if (const char* const stack = std::getenv(stack_variable))
    limits += fmt::format("; {}={}", stack_variable, stack);
  fail(ExitStatus::out_of_memory,
       fmt::format("the system starts no further thread ({}); raise the limit, or use fewer ranks "
                   "per host or a smaller --threads and --loader-threads",
                   limits));
}

int openmp_requested_threads() {
  // omp_get_max_threads() is the number of processors if the variable is not set or invalid.
  const char* const variable = std::getenv("OMP_NUM_THREADS");
  char* end = nullptr;
  const long number = variable == nullptr ? 0 : std::strtol(variable, &end, 10);
  if (number < 1 || number > INT_MAX) return 0;
  return *end == '\0' || *end == ',' || *end == ' ' ? static_cast<int>(number) : 0;
}

int openmp_thread_limit() { return omp_get_thread_limit(); }

void start_openmp_threads(int threads) {
  const int limit = openmp_thread_limit();
  if (threads > limit) {
    fail(ExitStatus::usage,
         fmt::format("{} threads per rank are requested, but OMP_THREAD_LIMIT permits {}; unset "
                     "it, or use --threads {}",
                     threads, limit, limit));
  }
  omp_set_dynamic(0);
  if (omp_get_max_active_levels() < 1) omp_set_max_active_levels(1);
  // OpenMP ends the process if a thread cannot be started.
  require_threads(threads - 1, requested_stack());
  int started = 0;
#pragma omp parallel num_threads(threads)
  {
#pragma omp single
    started = omp_get_num_threads();
  }
  check(started == threads, "OpenMP starts all threads that its limit permits");
}

}  // namespace lockstep::core
