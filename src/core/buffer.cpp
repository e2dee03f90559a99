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

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  // Large buffers are aligned to a huge page, which reduces TLB misses in convolutions.
  const std::size_t align = bytes >= huge_page_bytes ? huge_page_bytes : alignment;
  const std::size_t padded = (bytes + align - 1) / align * align;
  void* memory = std::aligned_alloc(align, padded);
  if (memory == nullptr) {
    fail(ExitStatus::out_of_memory,
         fmt::format("no memory left for a buffer of {}; use a smaller batch",
                     format_bytes(double(bytes))));
  }
  if (align == huge_page_bytes) madvise(memory, padded, MADV_HUGEPAGE);
  std::memset(memory, 0, bytes);
  data_.reset(static_cast<std::byte*>(memory));
}

Buffer::Buffer(std::span<std::byte> memory, std::shared_ptr<const void> owner)
    : data_(memory.data(), Release{std::move(owner)}), bytes_(memory.size()) {}

void Buffer::Release::operator()(std::byte* data) noexcept {
  if (owner) {
    owner.reset();
  } else {
    std::free(data);
  }
}

}  // namespace lockstep::core
