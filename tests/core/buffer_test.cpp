#include "lockstep/core/buffer.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <limits>

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
  try {
    const Buffer buffer(std::numeric_limits<std::size_t>::max() / 4);
    FAIL() << "four exabytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::out_of_memory);
    EXPECT_THAT(error.what(), testing::HasSubstr("smaller batch"));
  }
}

}  // namespace
}  // namespace lockstep::core
