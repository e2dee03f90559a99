// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "lockstep/core/buffer.hpp"

// Division of loops into parts, and distribution of these and of memory over threads.

namespace lockstep::backend::cpu {

/// a / b, rounded up, for a >= 0 and b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Indices [first, last).
struct Range {
  std::int64_t first = 0, last = 0;
};

/// Returns part `index` of `parts` parts of [0, count), which differ in size by at most 1.
constexpr Range part_of(std::int64_t count, std::int64_t index, std::int64_t parts) {
  return {count * index / parts, count * (index + 1) / parts};
}
constexpr Range part_of(Range range, std::int64_t index, std::int64_t parts) {
  const Range part = part_of(range.last - range.first, index, parts);
  return {range.first + part.first, range.first + part.last};
}

/// Returns into how many parts each of `tasks` tasks must be divided so that all threads get the
/// same number of parts; at most `most`, which is at least 1.
constexpr std::int64_t parts_per_task(std::int64_t tasks, std::int64_t threads, std::int64_t most) {
  return std::min(most, threads / std::gcd(tasks, threads));
}

/// Division of the blocks of images of a map into tasks of about the same size: each is a part of
/// the rows, and a part of the columns, of one block. (Rows and columns are any two divisions of a
/// block.) A thread that processes consecutive tasks processes the same parts of consecutive
/// blocks, so that all threads get the same share of a last block that has fewer images.
class BlockTasks {
 public:
  /// `images_per_block`: of all blocks but the last. `most_rows` and `most_columns` limit the
  /// numbers of parts; columns are only divided if there are too few rows.
  constexpr BlockTasks(std::int64_t images, std::int64_t images_per_block, std::int64_t threads,
                       std::int64_t most_rows, std::int64_t most_columns = 1)
      : blocks_(ceil_div(images, images_per_block)) {
    const std::int64_t equal_tasks = images % images_per_block == 0 ? blocks_ : 1;
    row_parts_ = parts_per_task(equal_tasks, threads, most_rows);
    column_parts_ = parts_per_task(equal_tasks * row_parts_, threads, most_columns);
  }

  constexpr std::int64_t count() const { return blocks_ * row_parts_ * column_parts_; }
  constexpr std::int64_t row_parts() const { return row_parts_; }

  constexpr std::int64_t block(std::int64_t task) const { return task % blocks_; }
  constexpr Range rows(std::int64_t task, std::int64_t all) const {
    return part_of(all, task / blocks_ / column_parts_, row_parts_);
  }
  constexpr Range columns(std::int64_t task, std::int64_t all) const {
    return part_of(all, task / blocks_ % column_parts_, column_parts_);
  }

 private:
  std::int64_t blocks_, row_parts_, column_parts_;
};

/// Allocates a zeroed buffer and lets each of the threads write its share of it, in order of
/// memory. On a host with several NUMA nodes, the pages of a share are then on the node of its
/// thread. The shares are those of `#pragma omp for schedule(static)`, so a loop over
/// the images of a batch, or over the parameters, reads mostly local memory.
core::Buffer distributed_buffer(std::size_t bytes, int threads);

}  // namespace lockstep::backend::cpu
