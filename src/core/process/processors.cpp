// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/processors.hpp"

#include <fmt/format.h>
#include <omp.h>
#include <sched.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace lockstep::core {

std::set<int> allowed_processors() {
  cpu_set_t mask{};
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return {};
  std::set<int> found;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &mask)) found.insert(processor);
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
  cpu_set_t mask{};
  for (const int processor : processors) CPU_SET(processor, &mask);
  return ::sched_setaffinity(0, sizeof mask, &mask) == 0;
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

}  // namespace lockstep::core
