// SPDX-License-Identifier: BSD-3-Clause
// It has a separate file, so that the compiler cannot inline a part of this replacement and combine
// it with operators of the standard library.

#include "count_allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> count{0};
std::atomic<lockstep::test::AllocationFilter> filter{nullptr};

constexpr auto usual = std::align_val_t(alignof(std::max_align_t));

void* allocate(std::size_t bytes, std::align_val_t alignment, const void* caller) noexcept {
  const auto is_counted = filter.load();
  if (is_counted == nullptr || is_counted(caller, bytes)) ++count;
  const auto unit = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(unit, bytes == 0 ? unit : (bytes + unit - 1) / unit * unit);
}

void* allocate_or_throw(std::size_t bytes, std::align_val_t alignment, const void* caller) {
  if (void* memory = allocate(bytes, alignment, caller)) return memory;
  throw std::bad_alloc();
}

}  // namespace

namespace lockstep::test {
long allocations() { return count; }
void count_allocations_if(AllocationFilter accepted) { filter = accepted; }
}  // namespace lockstep::test

void* operator new(std::size_t bytes) {
  return allocate_or_throw(bytes, usual, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return allocate_or_throw(bytes, usual, __builtin_return_address(0));
}
// The standard library also uses the form that returns null, for temporary buffers.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, usual, __builtin_return_address(0));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, alignment, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, alignment, __builtin_return_address(0));
}
// All forms are replaced, because AddressSanitizer replaces those that are not, and reports memory
// that it did not allocate.
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
