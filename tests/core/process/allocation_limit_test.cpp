// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/limits.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::core {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

TEST(AllocationLimit, FailsAllocationsBeyondTheLimitOnly) {
  {
    const AllocationLimit limit(64 * mib);
    EXPECT_EQ(Buffer(48 * mib).bytes(), 48 * mib);
    expect_error(ExitStatus::out_of_memory, {}, [] { Buffer(96 * mib); });
  }
  EXPECT_EQ(Buffer(96 * mib).bytes(), 96 * mib) << "the limit ends with the object";
}

TEST(AllocationLimit, CountsWhatIsAlreadyAllocatedOnTop) {
  const Buffer before(96 * mib);
  const AllocationLimit limit(64 * mib);
  EXPECT_EQ(Buffer(48 * mib).bytes(), 48 * mib);
}

}  // namespace
}  // namespace lockstep::core
