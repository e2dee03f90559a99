// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "division.hpp"
#include "row_kernels.hpp"

// Values per channel of a map: coefficients that the row kernels read, and sums that they compute.

namespace lockstep::backend::cpu {

/// Coefficients per channel in the form that the kernels read: for each block a row of `width`
/// floats, in which the values of the lanes are repeated.
class TiledCoefficients {
 public:
  TiledCoefficients(const FeatureMap& map, RowTiling tiling)
      : lanes_(map.lanes()),
        tiling_(tiling),
        values_(static_cast<std::size_t>(map.blocks() * tiling.width)) {}

  void set(std::int64_t channel, float value) {
    float* row = values_.data() + channel / lanes_ * tiling_.width + channel % lanes_;
    for (std::int64_t i = 0; i < tiling_.repeat; ++i) row[i * lanes_] = value;
  }
  const float* block(std::int64_t block) const { return values_.data() + block * tiling_.width; }

 private:
  std::int64_t lanes_;
  RowTiling tiling_;
  std::vector<float> values_;
};

/// Two sums per channel over a whole map. Each task (range of parts of the blocks of images, range
/// of blocks of channels) reads consecutive planes in the order of memory: the hardware prefetcher
/// recognises this order even if planes are small. Each task adds up about `rows_at_once` rows in
/// float32, and their sums in double.
class ChannelSums {
 public:
  ChannelSums(const FeatureMap& map, RowTiling tiling, int threads)
      : map_(map),
        tiling_(tiling),
        threads_(threads),
        parts_(map.images, map.images_per_block(), threads, tiling.rows),
        part_splits_(std::min<std::int64_t>(threads, parts_.count())),
        block_splits_(std::min(ceil_div(threads, part_splits_), map.blocks())),
        parts_at_once_(
            std::max<std::int64_t>(1, rows_at_once / ceil_div(tiling.rows, parts_.row_parts()))),
        rows_(static_cast<std::size_t>(part_splits_ * map.blocks() * tiling.width * 2)),
        sums_(static_cast<std::size_t>(part_splits_ * map.padded_channels() * 2)),
        first(static_cast<std::size_t>(map.padded_channels())),
        second(static_cast<std::size_t>(map.padded_channels())) {}

  /// Calls kernel(offset, tiling of the part, block, row of first sums, row of second sums) for
  /// each part of each plane; it adds the values of the part to the two rows.
  template <class Kernel>
  void run(Kernel&& kernel) {
    if (threads_ == 1) {
      run_task(0, kernel);  // may be in a parallel region: a nested one would allocate memory
    } else {
      const std::int64_t tasks = part_splits_ * block_splits_;
#pragma omp parallel for num_threads(threads_)
      for (std::int64_t task = 0; task < tasks; ++task) run_task(task, kernel);
    }
    std::ranges::fill(first, 0.0);
    std::ranges::fill(second, 0.0);
    const std::int64_t lanes = map_.lanes();
    for (std::int64_t split = 0; split < part_splits_; ++split) {
      for (std::int64_t channel = 0; channel < map_.padded_channels(); ++channel) {
        const double* const sum = sums(split, channel / lanes) + channel % lanes;
        first[static_cast<std::size_t>(channel)] += sum[0];
        second[static_cast<std::size_t>(channel)] += sum[lanes];
      }
    }
  }

 private:
  /// Rows that are added up in float32: few enough that the rounding errors stay small, enough that
  /// the additions in double do not take long.
  static constexpr std::int64_t rows_at_once = 128;

  /// Adds up some parts of some blocks of channels.
  template <class Kernel>
  void run_task(std::int64_t task, Kernel& kernel) {
    const std::int64_t split = task / block_splits_;
    const Range parts = part_of(parts_.count(), split, part_splits_);
    const Range blocks = part_of(map_.blocks(), task % block_splits_, block_splits_);
    std::fill(sums(split, blocks.first), sums(split, blocks.last), 0.0);
    std::fill(row(split, blocks.first), row(split, blocks.last), 0.0f);
    for (std::int64_t part = parts.first; part < parts.last; ++part) {
      const bool is_last = (part + 1) % parts_at_once_ == 0;
      const std::int64_t image_block = parts_.block(part);
      const Range rows = parts_.rows(part, rows_of_plane(tiling_, map_, image_block));
      for (std::int64_t block = blocks.first; block < blocks.last; ++block) {
        const std::int64_t plane = map_.plane_offset(image_block, block);
        float* const first_row = row(split, block);
        for (std::int64_t done = rows.first; done < rows.last; done += rows_at_once) {
          RowTiling some = tiling_;
          some.rows = std::min(rows_at_once, rows.last - done);
          kernel(plane + done * tiling_.width, some, block, first_row, first_row + tiling_.width);
          if (is_last) move_rows(first_row, sums(split, block));
        }
      }
    }
    for (std::int64_t block = blocks.first; block < blocks.last; ++block)
      move_rows(row(split, block), sums(split, block));
  }

  float* row(std::int64_t split, std::int64_t block) {
    return rows_.data() + (split * map_.blocks() + block) * tiling_.width * 2;
  }
  double* sums(std::int64_t split, std::int64_t block) {
    return sums_.data() + (split * map_.blocks() + block) * map_.lanes() * 2;
  }

  /// Adds the two rows of sums of a block to its sums per lane, and sets the rows to zero.
  void move_rows(float* rows, double* sums) const {
    const std::int64_t lanes = map_.lanes();
    for (std::int64_t i = 0; i < tiling_.width; i += lanes) {
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        sums[lane] += static_cast<double>(rows[i + lane]);
        sums[lanes + lane] += static_cast<double>(rows[tiling_.width + i + lane]);
      }
    }
    std::fill_n(rows, 2 * tiling_.width, 0.0f);
  }

  FeatureMap map_;
  RowTiling tiling_;
  int threads_;
  BlockTasks parts_;
  std::int64_t part_splits_, block_splits_, parts_at_once_;
  std::vector<float> rows_;   ///< (split of the parts, block, first or second sum, width)
  std::vector<double> sums_;  ///< (split of the parts, block, first or second sum, lane)

 public:
  std::vector<double> first, second;  ///< (padded channels), of the last run
};

}  // namespace lockstep::backend::cpu
