// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Deterministic sums over the rows of a matrix (rows, channels), one result per channel, in two
// passes. A slab is a contiguous range of rows. First pass: sums of each slab, one block per slab.
// The threads of a block read 16 bytes of channels each, side by side, and rows in turn, so that
// their accesses are contiguous; the block adds their sums. Second pass: sums over the slabs, one
// block per channel.

#include <algorithm>
#include <cstdint>

#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

/// Number of blocks per multiprocessor of kernels whose threads read 16 bytes at once: 512 threads
/// with several reads in flight saturate the memory bandwidth, and may have 128 registers each.
constexpr int slab_blocks = 2;

/// Rows [begin, end) of one slab.
struct RowRange {
  std::int64_t begin, end;
};

/// Returns the rows of one slab. The first slabs have one row more than the others if `slabs` does
/// not divide `rows`.
LOCKSTEP_HOST_DEVICE inline RowRange slab_rows(std::int64_t slab, std::int64_t slabs,
                                               std::int64_t rows) {
  const Division each = divide(rows, slabs);
  const std::int64_t longer = slab < each.remainder ? slab : each.remainder;
  const std::int64_t begin = slab * each.quotient + longer;
  return {begin, begin + each.quotient + (slab < each.remainder ? 1 : 0)};
}

/// How the threads of a block share a slab. A group is the channels that a thread processes at
/// once. If there are more groups than threads, several blocks share the groups of a slab.
struct SlabThreads {
  int columns;            ///< number of groups of one block: threads side by side
  int rows_at_once;       ///< number of rows that the block reads at once
  std::int64_t per_slab;  ///< number of blocks per slab

  LOCKSTEP_HOST_DEVICE explicit SlabThreads(std::int64_t groups)
      : columns(static_cast<int>(groups < block_threads ? groups : block_threads)),
        rows_at_once(block_threads / columns),
        per_slab(divide(groups + columns - 1, columns).quotient) {}
};

/// Returns the number of slabs (>= 1). There are enough threads to saturate the memory bandwidth of
/// an H100 or H200 (132 multiprocessors of 2,048 threads; `slab_blocks` blocks on each of them if
/// each thread reads 16 bytes at once, i.e. eight 16-bit or four 32-bit elements), but at least 16
/// rows per thread, so that adding the sums of the threads takes little time.
template <class T>
inline std::int64_t slab_count(std::int64_t rows, std::int64_t channels) {
  const std::int64_t width = channel_width<T>(channels);
  const std::int64_t blocks = std::int64_t{132} * (width == 1 ? 2048 / block_threads : slab_blocks);
  const SlabThreads threads(channels / width);
  const std::int64_t most = rows / (16 * threads.rows_at_once);
  return std::clamp<std::int64_t>(blocks / threads.per_slab, 1, std::max<std::int64_t>(most, 1));
}

/// The part of a block in the sums of a slab. `width`: number of channels of a group.
template <int width>
struct SlabBlock {
  SlabThreads threads;
  std::int64_t slab;
  std::int64_t first_group;
  std::int64_t groups;
  RowRange rows;

  /// `index`: of the block, in [0, slabs per_slab).
  LOCKSTEP_HOST_DEVICE SlabBlock(std::int64_t index, std::int64_t slabs, std::int64_t all_rows,
                                 std::int64_t channels)
      : threads(channels / width),
        slab(divide(index, threads.per_slab).quotient),
        first_group((index - slab * threads.per_slab) * threads.columns),
        groups(channels / width),
        rows(slab_rows(slab, slabs, all_rows)) {}

  /// Returns the first channel of the block.
  LOCKSTEP_HOST_DEVICE std::int64_t first_channel() const { return first_group * width; }
  /// Returns the first channel of a thread.
  LOCKSTEP_HOST_DEVICE std::int64_t channel(int thread) const {
    return (first_group + thread % threads.columns) * width;
  }
  /// Returns the first row of a thread; the next ones follow at a distance of `rows_at_once`.
  LOCKSTEP_HOST_DEVICE std::int64_t first_row(int thread) const {
    return rows.begin + thread / threads.columns;
  }
  /// Returns whether a thread has at least one row. The number of threads need not be a multiple of
  /// the number of columns.
  LOCKSTEP_HOST_DEVICE bool has_rows(int thread) const {
    return thread / threads.columns < threads.rows_at_once && first_row(thread) < rows.end &&
           channel(thread) < groups * width;
  }
};

/// Calls `use(row, read(row))` for every `step`-th row from `row` to `end`, in order; up to `ahead`
/// reads are in flight.
template <int ahead, class Read, class Use>
LOCKSTEP_HOST_DEVICE void stream_rows(std::int64_t row, std::int64_t end, int step, Read read,
                                      Use use) {
  using Row = decltype(read(row));
  // With the number of iterations, the compiler need not divide to unroll the loops.
  std::int64_t left = divide(end - row + step - 1, step).quotient;
  for (; left >= ahead; left -= ahead) {
    Row values[ahead];
    for (int i = 0; i < ahead; ++i) values[i] = read(row + i * step);
    for (int i = 0; i < ahead; ++i) use(row + i * step, values[i]);
    row += ahead * step;
  }
  for (; left > 0; --left) {
    use(row, read(row));
    row += step;
  }
}

/// Returns the number of blocks that compute `slabs` partial sums of maps of type T.
template <class T>
LOCKSTEP_HOST_DEVICE std::int64_t slab_block_count(std::int64_t slabs, std::int64_t channels) {
  return slabs * SlabThreads(channel_groups<T>(channels)).per_slab;
}

/// Writes the sums of the slab of a block to `partial` (slabs, kinds, channels). `add_rows(thread,
/// sums)` adds the rows of a thread, which has at least one, to `sums`: `width` sums of each kind.
template <int kinds, int width, class AddRows>
LOCKSTEP_HOST_DEVICE void sum_slab(const SlabBlock<width>& block, std::int64_t channels,
                                   float* partial, AddRows add_rows) {
  const auto add = [&](int thread, float(&sums)[kinds * width]) {
    if (block.has_rows(thread)) add_rows(thread, sums);
  };
  float* const to = partial + kinds * block.slab * channels + block.first_channel();
  const std::int64_t left = channels - block.first_channel();
  column_sums<kinds, width>(block.threads.columns, add, [&](int kind, int channel, float sum) {
    if (channel < left) to[kind * channels + channel] = sum;
  });
}

/// Computes `partial` (slabs, channels) from x (rows, channels): the sums over the rows of each
/// slab.
/// Memory traffic: reads x; writes partial.
template <class T>
struct ChannelSlabSums {
  static constexpr int team = block_threads;
  static constexpr int resident_blocks = slab_blocks;

  const T* x;
  float* partial;
  std::int64_t rows, channels, slabs;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return slab_block_count<T>(slabs, channels); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    with_channel_width<T>(channels, [&](auto width) { sum<width>(index); });
  }

 private:
  template <int width>
  LOCKSTEP_HOST_DEVICE void sum(std::int64_t index) const {
    const SlabBlock<width> block(index, slabs, rows, channels);
    sum_slab<1>(block, channels, partial, [&](int thread, float(&sums)[width]) {
      const T* const from = x + block.channel(thread);
      stream_rows<4>(
          block.first_row(thread), block.rows.end, block.threads.rows_at_once,
          [&](std::int64_t row) { return load_pack<width>(from + row * channels); },
          [&](std::int64_t, const Pack<T, width>& values) {
            for (int lane = 0; lane < width; ++lane) sums[lane] += values[lane];
          });
    });
  }
};

/// Computes `sums` (channels) from `partial` (slabs, channels): the sums over the slabs.
/// Memory traffic: reads partial (uncoalesced); writes sums.
struct ChannelTotals {
  static constexpr int team = 256;

  const float* partial;
  float* sums;
  std::int64_t channels, slabs;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return channels; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t channel) const {
    const double sum = team_sum<team, double>(
        slabs, [&](std::int64_t slab) -> double { return partial[slab * channels + channel]; });
    if (team_lane<team>() == 0) sums[channel] = static_cast<float>(sum);
  }
};

}  // namespace lockstep::backend::cuda::kernels
