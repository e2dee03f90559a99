// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/handle.hpp"

#include <gmock/gmock.h>

#include <type_traits>
#include <vector>

namespace lockstep::core {
namespace {

std::vector<int> closed;

struct Counted {
  using type = int;
  static int null() noexcept { return -1; }
  static void close(int value) noexcept { closed.push_back(value); }
};
using CountedHandle = Handle<Counted>;

class HandleTest : public testing::Test {
 protected:
  void SetUp() override { closed.clear(); }
};

TEST_F(HandleTest, ClosesOnceAtTheEnd) {
  { const CountedHandle handle(0); }
  EXPECT_THAT(closed, testing::ElementsAre(0));
}

TEST_F(HandleTest, EmptyHandleClosesNothing) {
  {
    const CountedHandle handle;
    EXPECT_FALSE(handle);
  }
  EXPECT_THAT(closed, testing::IsEmpty());
}

TEST_F(HandleTest, GivesAwayWhenMovedFrom) {
  {
    CountedHandle from(5);
    const CountedHandle to(std::move(from));
    EXPECT_TRUE(to);
    EXPECT_EQ(to.get(), 5);
  }
  EXPECT_THAT(closed, testing::ElementsAre(5));
}

TEST_F(HandleTest, ClosesWhatItHeldWhenAssignedTo) {
  {
    CountedHandle handle(1);
    handle = CountedHandle(2);
    EXPECT_THAT(closed, testing::ElementsAre(1));
    CountedHandle& itself = handle;
    handle = std::move(itself);
    EXPECT_EQ(handle.get(), 2);
  }
  EXPECT_THAT(closed, testing::ElementsAre(1, 2));
}

TEST_F(HandleTest, ReleasesToItsCaller) {
  CountedHandle handle(3);
  EXPECT_EQ(handle.release(), 3);
  EXPECT_FALSE(handle);
  handle.reset(4);
  handle.reset();
  EXPECT_THAT(closed, testing::ElementsAre(4));
}

static_assert(!std::is_copy_constructible_v<CountedHandle>);
static_assert(std::is_nothrow_move_constructible_v<CountedHandle>);

}  // namespace
}  // namespace lockstep::core
