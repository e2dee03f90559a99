// SPDX-License-Identifier: BSD-3-Clause
#include "backend/cpu/convolution/winograd_directions.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::backend::cpu::winograd {
namespace {

TEST(TileBlocks, CoverAllTilesOnceInBlocksOfEqualSize) {
  for (const std::int64_t tiles : {1, 7, 128, 257, 1025, 2048, 8192}) {
    for (const std::int64_t channels : {32, 256, 1024}) {
      for (const int threads : {1, 2, 3, 8}) {
        SCOPED_TRACE(testing::Message()
                     << tiles << " tiles, " << channels << " channels, " << threads << " threads");
        const TileBlocks blocks({.count = tiles}, channels, threads);
        if (!blocks.are_shared()) {
          EXPECT_EQ(blocks.count() % threads, 0);
        }
        std::int64_t next = 0, fewest = tiles, most = 0;
        for (std::int64_t block = 0; block < blocks.count(); ++block) {
          const TileRange range = blocks.range(block);
          EXPECT_EQ(range.first, next);
          next += range.count;
          fewest = std::min(fewest, range.count);
          most = std::max(most, range.count);
        }
        EXPECT_EQ(next, tiles);
        EXPECT_LE(most - fewest, 1);
        EXPECT_EQ(most, blocks.most_tiles());
      }
    }
  }
}

TEST(TileBlocks, AreSharedIfThereAreFewTilesOrLargeResults) {
  EXPECT_TRUE(TileBlocks({.count = 255}, 64, 2).are_shared());
  EXPECT_FALSE(TileBlocks({.count = 256}, 64, 2).are_shared());
  // The transformed maps have 256 * 36 * 64 floats, 2.36 MB.
  EXPECT_FALSE(TileBlocks({.count = 256}, 64, 2, 100'000).are_shared());
  EXPECT_TRUE(TileBlocks({.count = 256}, 64, 2, 200'000).are_shared());
}

}  // namespace
}  // namespace lockstep::backend::cpu::winograd
