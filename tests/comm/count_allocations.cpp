// Replaces the global operator new of the program by one that counts its calls. It has a separate
// file, so that the compiler cannot inline a part of this replacement and combine it with operators
// of the standard library.

#include "count_allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<long> count = 0;
}  // namespace

namespace lockstep::comm {
long allocations() { return count; }
}  // namespace lockstep::comm

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++count;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
