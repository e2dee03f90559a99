// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "state.hpp"

namespace lockstep::simulated_gpu {

namespace {

std::vector<std::string>* recorded = nullptr;

}  // namespace

void violation(std::string_view rule, const std::string& detail) {
  const std::string message = fmt::format("{}: {}", rule, detail);
  if (recorded != nullptr) {
    recorded->push_back(message);
    return;
  }
  std::fprintf(stderr, "simulated GPU: contract violated: %s\n", message.c_str());
  std::fflush(stderr);
  std::abort();
}

std::vector<std::string> record_violations(const std::function<void()>& work) {
  std::vector<std::string> messages;
  recorded = &messages;
  try {
    work();
  } catch (...) {
    recorded = nullptr;
    throw;
  }
  recorded = nullptr;
  return messages;
}

int& open_captures() {
  static int count = 0;
  return count;
}

void require_no_capture(const char* call) {
  if (open_captures() > 0)
    violation("capture-unsafe call", fmt::format("{} during a stream capture", call));
}

Objects& mutable_objects() {
  static Objects objects;
  return objects;
}

Objects count_objects() {
  Objects objects = mutable_objects();
  objects.streams = streams().size();
  objects.executable_graphs = executable_graphs().size();
  return objects;
}

}  // namespace lockstep::simulated_gpu
