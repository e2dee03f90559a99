// SPDX-License-Identifier: BSD-3-Clause
#include "backend/cpu/kernels/division.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

namespace lockstep::backend::cpu {
namespace {

struct Grid {
  std::int64_t blocks;
  bool are_equal;
  std::int64_t threads, rows, columns;
};

/// Returns how many elements (block, row, column) each thread processes, if consecutive tasks are
/// distributed evenly. Expects that each element belongs to one task. In a last block that is not
/// equal to the others, `last` is the number of rows.
std::vector<std::int64_t> elements_per_thread(const Grid& grid, std::int64_t last) {
  constexpr std::int64_t images_per_block = 2;
  const std::int64_t images = grid.blocks * images_per_block - (grid.are_equal ? 0 : 1);
  const BlockTasks tasks(images, images_per_block, grid.threads, grid.rows, grid.columns);
  std::vector<std::int64_t> elements(static_cast<std::size_t>(grid.threads));
  std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> seen;
  for (std::int64_t thread = 0; thread < grid.threads; ++thread) {
    const Range own = part_of(tasks.count(), thread, grid.threads);
    for (std::int64_t task = own.first; task < own.last; ++task) {
      const std::int64_t block = tasks.block(task);
      const Range rows = tasks.rows(task, block + 1 < grid.blocks ? grid.rows : last);
      const Range columns = tasks.columns(task, grid.columns);
      for (std::int64_t row = rows.first; row < rows.last; ++row) {
        for (std::int64_t column = columns.first; column < columns.last; ++column)
          seen.emplace_back(block, row, column);
      }
      elements[static_cast<std::size_t>(thread)] +=
          (rows.last - rows.first) * (columns.last - columns.first);
    }
  }
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  EXPECT_EQ(static_cast<std::int64_t>(seen.size()),
            ((grid.blocks - 1) * grid.rows + last) * grid.columns);
  return elements;
}

TEST(BlockTasks, GiveAllThreadsTheSameWorkIfTheyCan) {
  for (const Grid& grid : {Grid{4, true, 2, 16, 2}, Grid{1, true, 2, 16, 2}, Grid{1, true, 8, 2, 4},
                           Grid{3, true, 6, 4, 8}}) {
    const auto elements = elements_per_thread(grid, grid.rows);
    EXPECT_EQ(std::ranges::min(elements), std::ranges::max(elements))
        << grid.blocks << " blocks, " << grid.threads << " threads";
  }
}

TEST(BlockTasks, ShareAnIncompleteBlock) {
  EXPECT_EQ(elements_per_thread({2, false, 2, 16, 1}, 4), (std::vector<std::int64_t>{10, 10}));
  EXPECT_EQ(elements_per_thread({3, false, 4, 2, 4}, 1), (std::vector<std::int64_t>{4, 4, 6, 6}));
  // Some parts of the last block are empty.
  EXPECT_EQ(elements_per_thread({2, false, 8, 16, 1}, 4),
            (std::vector<std::int64_t>{2, 3, 2, 3, 2, 3, 2, 3}));
}

TEST(BlockTasks, LeaveThreadsWithoutWorkIfThereIsTooLittle) {
  const auto elements = elements_per_thread({1, true, 8, 2, 3}, 2);
  EXPECT_EQ(std::ranges::max(elements), 1);
  EXPECT_EQ(std::ranges::count(elements, 0), 2);
}

}  // namespace
}  // namespace lockstep::backend::cpu
