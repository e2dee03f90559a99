// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/buffer.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/format.hpp"

namespace lockstep::core {

namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

std::size_t padded(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

std::shared_ptr<void> allocate_zeroed(std::size_t bytes) {
  void* const memory = std::aligned_alloc(Buffer::alignment, padded(bytes, Buffer::alignment));
  if (memory != nullptr) std::memset(memory, 0, bytes);
  return {memory, std::free};
}

/// Maps zeroed pages, aligned to a huge page, which reduces TLB misses in convolutions. The kernel
/// allocates the memory of a page at the first write. Returns null if the mapping fails. The memory
/// returns to the kernel when it is released, so that the resident memory of a process does not
/// depend on its earlier buffers.
std::shared_ptr<void> map_pages(std::size_t bytes) {
  const std::size_t length = padded(bytes, huge_page_bytes);
  const std::size_t mapped = length + huge_page_bytes;
  if (mapped < bytes) return {};
  void* const memory =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {};
  void* aligned = memory;
  std::size_t space = mapped;
  std::align(huge_page_bytes, length, aligned, space);
  if (space < mapped) munmap(memory, mapped - space);
  if (space > length) munmap(static_cast<std::byte*>(aligned) + length, space - length);
  madvise(aligned, length, MADV_HUGEPAGE);
  return {aligned, [length](void* pages) { munmap(pages, length); }};
}

}  // namespace

Buffer::Buffer(std::size_t bytes) : Buffer(untouched(bytes)) {
  if (bytes >= huge_page_bytes) std::memset(data(), 0, bytes);
}

Buffer Buffer::untouched(std::size_t bytes) {
  if (bytes == 0) return {};
  std::shared_ptr<void> memory =
      bytes >= huge_page_bytes ? map_pages(bytes) : allocate_zeroed(bytes);
  if (memory == nullptr) {
    fail(ExitStatus::out_of_memory,
         fmt::format("no memory left for a buffer of {}; use a smaller batch",
                     format_bytes(double(bytes))));
  }
  auto* const first = static_cast<std::byte*>(memory.get());
  return {{first, bytes}, std::move(memory)};
}

Buffer::Buffer(std::span<std::byte> memory, std::shared_ptr<const void> owner)
    : data_(memory.data(), Release{std::move(owner)}), bytes_(memory.size()) {}

}  // namespace lockstep::core
