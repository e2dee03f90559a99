// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/openmp.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <climits>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/process/processors.hpp"
#include "lockstep/core/process/thread_start.hpp"

namespace lockstep::core {

namespace {

/// Returns the size of the stacks of OpenMP's threads that OMP_STACKSIZE requests, in bytes: a
/// number with a unit, by default kibibytes; 0 if there is none. OpenMP has no function for it.
std::size_t requested_stack() {
  const char* const variable = std::getenv(openmp_stack_variable);
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
