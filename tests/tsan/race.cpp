// SPDX-License-Identifier: BSD-3-Clause
// A program with a race of the kind that its argument names (threads or openmp), or without a race
// (none). It shows that ThreadSanitizer finds races with the suppressions, and that it knows the
// barriers of OpenMP.

#include <cstring>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  const char* const kind = argc > 1 ? argv[1] : "none";
  int shared = 0;
  if (std::strcmp(kind, "threads") == 0) {
    std::jthread other([&] { ++shared; });
    ++shared;
  }
  std::vector<int> values(1000);
#pragma omp parallel num_threads(2)
  {
#pragma omp for
    for (int i = 0; i < 1000; ++i) values[static_cast<std::size_t>(i)] = i;
#pragma omp for
    for (int i = 0; i < 1000; ++i) values[static_cast<std::size_t>(999 - i)] += i;
    if (std::strcmp(kind, "openmp") == 0) ++shared;
  }
  return values[999] + shared < 0 ? 1 : 0;
}
