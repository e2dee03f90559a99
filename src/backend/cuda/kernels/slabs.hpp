// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Deterministic sums over the rows of a matrix (rows, channels), one result per channel, in two
// passes. A slab is a contiguous range of rows. First pass: sums of each slab, one thread per slab
// and 16 bytes of channels, so that accesses of neighbouring threads are contiguous. Second pass:
// sums over the slabs, one block per channel.

#include <algorithm>
#include <cstdint>

#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

/// Number of blocks per multiprocessor of kernels whose threads read 16 bytes at once: 512 threads
/// with several reads in flight saturate the memory bandwidth, and may have 128 registers each.
constexpr int slab_blocks = 2;

/// Returns the number of slabs (>= 1). There are enough threads to saturate the memory bandwidth of
/// an H100 or H200 (132 multiprocessors of 2,048 threads; `slab_blocks` blocks on each of them if
/// each thread reads 16 bytes at once, i.e. eight 16-bit or four 32-bit elements), but at least 16
/// rows per slab, so that there are few partial sums compared to elements.
template <class T>
inline std::int64_t slab_count(std::int64_t rows, std::int64_t channels) {
  const std::int64_t width = channel_width<T>(channels);
  const std::int64_t threads =
      std::int64_t{132} * (width == 1 ? 2048 : slab_blocks * block_threads);
  const std::int64_t groups = channels / width;
  return std::clamp<std::int64_t>(threads / groups, 1, std::max<std::int64_t>(rows / 16, 1));
}

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

/// Calls `use(row, read(row))` for each row in order; up to `ahead` reads are in flight.
template <int ahead, class Read, class Use>
LOCKSTEP_HOST_DEVICE void stream_rows(RowRange rows, Read read, Use use) {
  using Row = decltype(read(rows.begin));
  std::int64_t row = rows.begin;
  for (; row + ahead <= rows.end; row += ahead) {
    Row values[ahead];
    for (int i = 0; i < ahead; ++i) values[i] = read(row + i);
    for (int i = 0; i < ahead; ++i) use(row + i, values[i]);
  }
  for (; row < rows.end; ++row) use(row, read(row));
}

/// Computes `partial` (slabs, channels) from x (rows, channels): the sums over the rows of each
/// slab.
/// Memory traffic: reads x; writes partial.
template <class T>
struct ChannelSlabSums {
  static constexpr int resident_blocks = slab_blocks;

  const T* x;
  float* partial;
  std::int64_t rows, channels, slabs;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return slabs * channel_groups<T>(channels); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    with_channel_width<T>(channels, [&](auto width) { sum<width>(index); });
  }

 private:
  template <int width>
  LOCKSTEP_HOST_DEVICE void sum(std::int64_t index) const {
    const auto [slab, group] = divide(index, channels / width);
    const T* const from = x + group * width;
    float sums[width] = {};
    stream_rows<4>(
        slab_rows(slab, slabs, rows),
        [&](std::int64_t row) { return load_pack<width>(from + row * channels); },
        [&](std::int64_t, const Pack<T, width>& values) {
          for (int lane = 0; lane < width; ++lane) sums[lane] += values[lane];
        });
    store_pack<width>(partial + slab * channels + group * width, sums);
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
