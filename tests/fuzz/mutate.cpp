// SPDX-License-Identifier: BSD-3-Clause
// Driver of a fuzz target without libFuzzer: calls it with random mutations of the seeds.
//   PROGRAM FOLDER COUNT [SEED]

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "lockstep/core/random.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;
using lockstep::core::Random;

volatile std::sig_atomic_t round_now = 0;

void report_round(int signal) {
  char text[64];
  const int length = std::snprintf(text, sizeof text, "signal %d in round %d\n", signal,
                                   static_cast<int>(round_now));
  if (::write(STDOUT_FILENO, text, static_cast<std::size_t>(length)) < 0) ::_exit(2);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::vector<Bytes> read_seeds(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry);
  std::sort(files.begin(), files.end());
  std::vector<Bytes> seeds;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return seeds;
}

std::size_t position(Random& random, std::size_t size) {
  return random.below(static_cast<std::uint32_t>(std::max<std::size_t>(size, 1)));
}

void mutate(Bytes& bytes, const Bytes& other, Random& random) {
  const std::size_t at = position(random, bytes.size());
  const auto here = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  const auto length = static_cast<std::ptrdiff_t>(
      std::min<std::size_t>(1 + position(random, 16), bytes.size() - at));
  switch (bytes.empty() ? 4 : random.below(7)) {
    case 0: *here = static_cast<std::uint8_t>(*here ^ (1u << random.below(8))); break;
    case 1: *here = static_cast<std::uint8_t>(random.below(256)); break;
    case 2: std::fill_n(here, length, random.below(2) ? 0xff : 0); break;
    case 3: bytes.erase(here, here + length); break;
    case 4:
      bytes.insert(here, 1 + random.below(8), static_cast<std::uint8_t>(random.below(256)));
      break;
    case 5: bytes.resize(at); break;
    default: {
      const std::size_t from = position(random, other.size());
      const std::size_t count = std::min({other.size() - from, bytes.size() - at, std::size_t{64}});
      std::copy_n(other.begin() + static_cast<std::ptrdiff_t>(from), count, here);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::vector<Bytes> seeds = read_seeds(argv[1]);
  const int count = std::atoi(argv[2]);
  if (seeds.empty() || count <= 0) return 2;
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, report_round);
  const int quiet = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (std::getenv("LOCKSTEP_FUZZ_VERBOSE") == nullptr) ::dup2(quiet, STDERR_FILENO);
  for (const Bytes& seed : seeds) LLVMFuzzerTestOneInput(seed.data(), seed.size());
  const std::uint64_t number = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < count; ++round) {
    round_now = round;
    Random random(number, lockstep::core::RandomStream::test, static_cast<std::uint64_t>(round));
    Bytes bytes = seeds[position(random, seeds.size())];
    const Bytes& other = seeds[position(random, seeds.size())];
    for (std::uint32_t left = 1 + random.below(4); left > 0; --left) mutate(bytes, other, random);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  std::printf("%d inputs from %zu seeds in %.1f s\n", count, seeds.size(), time.count());
  return 0;
}
