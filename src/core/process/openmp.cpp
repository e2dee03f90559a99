// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/openmp.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/core/process/thread.hpp"

namespace lockstep::core {

namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

/// Returns the size of the stack of OpenMP's threads that OMP_STACKSIZE requests, in bytes: a
/// number with a unit, by default kibibytes; 0 if there is none.
std::size_t requested_stack() {
  const std::string_view text = variable("OMP_STACKSIZE");
  std::size_t number = 0;
  const char* const begin = text.data() + std::min(text.find_first_not_of(' '), text.size());
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error != std::errc()) return 0;
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  switch (unit.empty() ? 'K' : std::toupper(static_cast<unsigned char>(unit.front()))) {
    case 'B': return number;
    case 'M': return number << 20;
    case 'G': return number << 30;
    default: return number << 10;
  }
}

}  // namespace

int openmp_requested_threads() {
  // omp_get_max_threads() is the number of processors if the variable is not set or invalid.
  const std::string_view text = variable("OMP_NUM_THREADS");
  int number = 0;
  const auto begin = text.data() + std::min(text.find_first_not_of(' '), text.size());
  const char* const text_end = text.data() + text.size();
  const auto end = std::from_chars(begin, text_end, number).ptr;
  const bool is_number = end == text_end || *end == ',' || *end == ' ';
  return is_number ? std::max(number, 0) : 0;
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
  require_threads(threads - 1, requested_stack());
  int started = 0;
#pragma omp parallel num_threads(threads)
  {
#pragma omp single
    started = omp_get_num_threads();
  }
  if (started < threads) {
    fail(ExitStatus::usage,
         fmt::format("OpenMP starts {} of {} threads; unset the variables OMP_*, or use --threads "
                     "{}",
                     started, threads, started));
  }
}

}  // namespace lockstep::core
