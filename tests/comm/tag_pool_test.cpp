// SPDX-License-Identifier: BSD-3-Clause
#include "all_reduce/resources.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace lockstep::comm {
namespace {

constexpr int smallest_bound = 32767;  // smallest MPI_TAG_UB that MPI allows

TEST(TagPool, BlocksInUseAtTheSameTimeDoNotOverlap) {
  TagPool pool(smallest_bound);
  std::vector<std::shared_ptr<const int>> blocks;
  std::set<int> tags;
  while (auto block = pool.take()) {
    for (int tag = *block; tag < *block + tags_per_all_reduce; ++tag) {
      EXPECT_TRUE(tags.insert(tag).second) << "tag " << tag << " twice";
    }
    blocks.push_back(std::move(block));
  }
  EXPECT_EQ(static_cast<std::int64_t>(blocks.size()), pool.capacity());
  EXPECT_EQ(pool.capacity(), 1024);
  EXPECT_GE(*tags.begin(), 0);
  EXPECT_LE(*tags.rbegin(), smallest_bound);
}

TEST(TagPool, GivesOutTheLowestBlockThatIsFree) {
  TagPool pool(smallest_bound);
  std::vector<std::shared_ptr<const int>> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool.take());
  const int second = *blocks[1];
  blocks[2].reset();
  blocks[1].reset();
  EXPECT_EQ(*pool.take(), second);
  EXPECT_EQ(*pool.take(), second);  // the previous call released its block
}

TEST(TagPool, HasRoomForTheLargestBound) {
  TagPool pool(2147483647);
  EXPECT_EQ(pool.capacity(), 1 << 26);
  EXPECT_EQ(*pool.take(), 0);
}

}  // namespace
}  // namespace lockstep::comm
