// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/buffer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "expect_error.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::core {
namespace {

TEST(Buffer, IsAlignedAndZeroed) {
  for (const std::size_t bytes : {1, 63, 64, 65, 4'000, 5'000'000}) {
    const Buffer buffer(bytes);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % Buffer::alignment, 0u);
    EXPECT_TRUE(std::ranges::all_of(buffer.as<std::byte>(),
                                    [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

/// Returns the share of the whole pages in this memory for which the kernel has allocated memory.
double resident_share(void* memory, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(bytes / page);
  EXPECT_EQ(mincore(memory, pages.size() * page, pages.data()), 0);
  const auto resident = std::ranges::count_if(pages, [](auto state) { return (state & 1) != 0; });
  return static_cast<double>(resident) / static_cast<double>(pages.size());
}

TEST(Buffer, PagesAreAllocatedByTheConstructorOrByTheFirstWrite) {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const auto share = [](const Buffer& buffer) { return resident_share(buffer.data(), bytes); };
  EXPECT_EQ(share(Buffer(bytes)), 1.0);
  void* const unused = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const double unused_share = resident_share(unused, bytes);
  munmap(unused, bytes);
  if (unused_share > 0) GTEST_SKIP() << "this kernel reports pages without memory as resident";
  const Buffer untouched = Buffer::untouched(bytes);
  EXPECT_EQ(share(untouched), 0.0);
  untouched.data()[0] = std::byte{1};
  const double written = share(untouched);
  EXPECT_GT(written, 0.0);
  EXPECT_LE(written, 0.5) << "one page or one huge page, whose size depends on the machine";
}

TEST(Buffer, UntouchedBuffersAreZeroedAlsoInReusedMemory) {
  for (const std::size_t bytes : {1, 65, 65, 65, 4'000, 4'000, 5'000'000, 5'000'000}) {
    const Buffer buffer = Buffer::untouched(bytes);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % Buffer::alignment, 0u);
    EXPECT_TRUE(std::ranges::all_of(buffer.as<std::byte>(),
                                    [](std::byte byte) { return byte == std::byte{0}; }));
    std::ranges::fill(buffer.as<std::byte>(), std::byte{7});
  }
  EXPECT_EQ(Buffer::untouched(0).data(), nullptr);
}

TEST(Buffer, EmptyBufferHasNoMemory) {
  EXPECT_EQ(Buffer().data(), nullptr);
  EXPECT_EQ(Buffer(0).data(), nullptr);
  EXPECT_TRUE(Buffer(0).as<float>().empty());
}

TEST(Buffer, ViewsHaveWholeElements) {
  const Buffer buffer(11);
  EXPECT_EQ(buffer.as<float>().size(), 2u);
  buffer.as<float>()[1] = 7;
  EXPECT_EQ(buffer.as<float>()[1], 7);
}

TEST(Buffer, MovesItsMemory) {
  Buffer from(64);
  from.as<int>()[3] = 42;
  const std::byte* const memory = from.data();
  const Buffer to = std::move(from);
  EXPECT_EQ(to.data(), memory);
  EXPECT_EQ(to.as<int>()[3], 42);
}

TEST(Buffer, ReportsOutOfMemory) {
  expect_error(ExitStatus::out_of_memory, {"smaller batch"},
               [] { Buffer(std::numeric_limits<std::size_t>::max() / 4); });
}

}  // namespace
}  // namespace lockstep::core
