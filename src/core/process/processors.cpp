// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/processors.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <array>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <sstream>

namespace lockstep::core {

namespace {

/// Mask of 8192 processors, the most that Linux supports on x86; `cpu_set_t` has 1024.
using Mask = std::array<cpu_set_t, 8>;

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

}  // namespace lockstep::core
