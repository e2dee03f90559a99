// SPDX-License-Identifier: BSD-3-Clause
// Defines the functions that code compiled with -fsanitize=thread calls (the interface of the
// runtime library of ThreadSanitizer, tsan_interface.h in GCC and LLVM).

#include "traffic.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <set>
#include <stdexcept>
#include <tuple>

namespace lockstep::backend::cuda::kernels::test {
namespace {

constexpr std::uintptr_t sector_bytes = 32;
constexpr std::int64_t warp = 32;

/// The n-th access of an instruction to a tensor. The threads of a warp execute it together.
struct WarpAccess {
  std::size_t tensor;
  const void* instruction;
  std::int64_t occurrence;
  auto operator<=>(const WarpAccess&) const = default;
};

struct State {
  std::vector<Access> accesses;
  std::vector<Counted> counted;
  int team;
  std::int64_t warp_index = -1;
  std::map<std::pair<std::size_t, const void*>, std::int64_t> occurrences;  ///< of this index
  std::map<WarpAccess, std::set<std::uintptr_t>> sectors;                   ///< of this warp

  void end_warp() {
    for (const auto& [access, touched] : sectors)
      counted[access.tensor].sector_bytes += static_cast<std::int64_t>(touched.size()) * 32;
    sectors.clear();
  }

  void count(std::uintptr_t address, std::size_t bytes, bool is_write, const void* instruction) {
    for (std::size_t tensor = 0; tensor < accesses.size(); ++tensor) {
      const auto begin = reinterpret_cast<std::uintptr_t>(accesses[tensor].address);
      if (address < begin || address - begin >= static_cast<std::uintptr_t>(accesses[tensor].bytes))
        continue;
      auto& total = is_write ? counted[tensor].written : counted[tensor].read;
      total += static_cast<std::int64_t>(bytes);
      std::int64_t occurrence = occurrences[{tensor, instruction}]++;
      // On the host, one thread does the work of the team; thread i % team does element i.
      if (team > 1) occurrence /= warp;
      auto& touched = sectors[{tensor, instruction, occurrence}];
      for (std::uintptr_t at = address / sector_bytes; at <= (address + bytes - 1) / sector_bytes;
           ++at)
        touched.insert(at);
    }
  }
};

State* current = nullptr;

}  // namespace

void Free::operator()(std::byte* data) const { std::free(data); }

Memory allocate(std::int64_t bytes) {
  constexpr std::size_t alignment = 256;
  const std::size_t size =
      (static_cast<std::size_t>(bytes) + alignment - 1) / alignment * alignment;
  auto* const data = static_cast<std::byte*>(std::aligned_alloc(alignment, size));
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0, size);
  return Memory(data);
}

TrafficCounter::TrafficCounter(const std::vector<Access>& accesses, int team) {
  if (current != nullptr) throw std::logic_error("two counters of memory traffic");
  current = new State{accesses, std::vector<Counted>(accesses.size()), team, -1, {}, {}};
}

TrafficCounter::~TrafficCounter() {
  delete current;
  current = nullptr;
}

void TrafficCounter::begin_index(std::int64_t index) {
  const std::int64_t warp_index = current->team > 1 ? index : index / warp;
  if (warp_index != current->warp_index) current->end_warp();
  current->warp_index = warp_index;
  current->occurrences.clear();
}

std::vector<Counted> TrafficCounter::finish() {
  current->end_warp();
  return current->counted;
}

namespace {

void count(const void* address, std::size_t bytes, bool is_write, const void* instruction) {
  if (State* const state = current; state != nullptr) {
    current = nullptr;  // this function may call instrumented functions of the standard library
    state->count(reinterpret_cast<std::uintptr_t>(address), bytes, is_write, instruction);
    current = state;
  }
}

}  // namespace

}  // namespace lockstep::backend::cuda::kernels::test

using lockstep::backend::cuda::kernels::test::count;

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define LOCKSTEP_COUNT(BYTES)                                  \
  void __tsan_read##BYTES(void* address) {                     \
    count(address, BYTES, false, __builtin_return_address(0)); \
  }                                                            \
  void __tsan_write##BYTES(void* address) {                    \
    count(address, BYTES, true, __builtin_return_address(0));  \
  }
LOCKSTEP_COUNT(1)
LOCKSTEP_COUNT(2)
LOCKSTEP_COUNT(4)
LOCKSTEP_COUNT(8)
LOCKSTEP_COUNT(16)

void __tsan_read_range(void* address, std::size_t bytes) {
  count(address, bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void* address, std::size_t bytes) {
  count(address, bytes, true, __builtin_return_address(0));
}

}  // extern "C"
