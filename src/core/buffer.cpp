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
}

Buffer::Buffer(std::size_t bytes) : Buffer(untouched(bytes)) {
  if (bytes > 0) std::memset(data(), 0, bytes);
}

Buffer Buffer::untouched(std::size_t bytes) {
  if (bytes == 0) return {};
  // Large buffers are aligned to a huge page, which reduces TLB misses in convolutions.
  const std::size_t align = bytes >= huge_page_bytes ? huge_page_bytes : alignment;
  const std::size_t padded = (bytes + align - 1) / align * align;
  // calloc writes zeros only to memory that was used before.
  void* const memory = std::calloc(padded / align + 1, align);
  if (memory == nullptr) {
    fail(ExitStatus::out_of_memory,
         fmt::format("no memory left for a buffer of {}; use a smaller batch",
                     format_bytes(double(bytes))));
  }
  std::shared_ptr<const void> owner(memory, std::free);
  void* aligned = memory;
  std::size_t space = padded + align;
  std::align(align, padded, aligned, space);
  if (align == huge_page_bytes) madvise(aligned, padded, MADV_HUGEPAGE);
  return {{static_cast<std::byte*>(aligned), bytes}, std::move(owner)};
}

Buffer::Buffer(std::span<std::byte> memory, std::shared_ptr<const void> owner)
    : data_(memory.data(), Release{std::move(owner)}), bytes_(memory.size()) {}

}  // namespace lockstep::core
