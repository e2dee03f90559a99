// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Forward pass of batch norm (Ioffe and Szegedy, 2015), fused with the residual addition and the
// ReLU that follow it. x is (rows, channels), where rows are all pixels of all images.
//   1. BatchNormSums: for each slab (range of rows), the sums of x - k and of (x - k)^2. k is a
//      value near the mean, which avoids cancellation in the sum of squares.
//   2. BatchNormTotals: sums over all slabs, (2 channels + 1) float32: sums, sums of squares, and
//      the number of rows. For batch norm over all replicas, the caller sums them over the
//      replicas.
//   3. BatchNormStatistics: mean, 1 / deviation, update of the running statistics, scale, offset.
//   4. BatchNormApply: y = [relu](scale x + offset [+ residual]), with scale = gamma / deviation
//      and offset = beta - mean scale.
// For batch norm over one replica, a single kernel does 2 and 3: BatchNormTotalsAndStatistics. If a
// cuDNN graph has summed x already, BatchNormStatisticsOfSums replaces 1 to 3. In inference,
// BatchNormInferenceCoefficients replaces 1 to 3.
//
// Memory traffic: x is read twice, the residual is read once, y is written once. The partial sums
// are small in comparison.

#include <cmath>

#include "slabs.hpp"

namespace lockstep::backend::cuda::kernels {

/// The value k that is subtracted from x before summing. With `common` (channels), a value that all
/// replicas share (the running mean), the totals of all replicas can be added; otherwise k is the
/// first pixel of x.
template <class T>
struct BatchNormShift {
  const T* x;
  const float* common;

  LOCKSTEP_HOST_DEVICE float at(std::int64_t channel) const {
    return common != nullptr ? common[channel] : load(x, channel);
  }
};

/// Returns the size of `partial` (slabs, 2, channels) in floats.
constexpr std::int64_t batch_norm_partial_size(std::int64_t slabs, std::int64_t channels) {
  return 2 * slabs * channels;
}

/// Computes `partial` (slabs, 2, channels) from x (rows, channels): for each slab, the sums of x -
/// first pixel and of its square.
/// Memory traffic: reads x (its first row once per thread of a channel); writes partial.
template <class T>
struct BatchNormSums {
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
    sum_slab<2>(block, channels, partial,
                [&](int thread, float(&sums)[2 * width]) { add_rows<width>(block, thread, sums); });
  }

  /// Adds the rows of a thread to `sums`: first the differences, then their squares.
  template <int width>
  LOCKSTEP_HOST_DEVICE void add_rows(const SlabBlock<width>& block, int thread,
                                     float (&sums)[2 * width]) const {
    const T* const from = x + block.channel(thread);
    const auto shift = load_pack<width>(from);
    stream_rows<4>(
        block.first_row(thread), block.rows.end, block.threads.rows_at_once,
        [&](std::int64_t row) { return load_pack<width>(from + row * channels); },
        [&](std::int64_t, const Pack<T, width>& values) {
          for (int lane = 0; lane < width; ++lane) {
            const float difference = values[lane] - shift[lane];
            sums[lane] += difference;
            sums[width + lane] += difference * difference;
          }
        });
  }
};

/// Computes `totals` (2 channels + 1) from `partial` (slabs, 2, channels): the sums of x - shift,
/// the sums of (x - shift)^2, and the number of rows.
/// Memory traffic: reads partial (uncoalesced); writes totals; from caches: x, shift.common.
template <class T>
struct BatchNormTotals {
  static constexpr int team = 256;

  const float* partial;
  BatchNormShift<T> shift;
  float* totals;
  std::int64_t rows, channels, slabs;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return channels; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t channel) const {
    const float* const from = partial + channel;
    double sum = team_sum<team, double>(
        slabs, [&](std::int64_t slab) -> double { return from[2 * slab * channels]; });
    double square = team_sum<team, double>(
        slabs, [&](std::int64_t slab) -> double { return from[(2 * slab + 1) * channels]; });
    if (team_lane<team>() != 0) return;
    // Change from sums of v = x - first pixel to sums of x - shift = v + d:
    // sum (v + d)^2 = sum v^2 + d (2 sum v + n d).
    const auto n = static_cast<double>(rows);
    const double distance =
        static_cast<double>(load(shift.x, channel)) - static_cast<double>(shift.at(channel));
    square += distance * (2 * sum + n * distance);
    sum += n * distance;
    totals[channel] = static_cast<float>(sum);
    totals[channels + channel] = static_cast<float>(square);
    if (channel == 0) totals[2 * channels] = static_cast<float>(n);
  }
};

/// The parameters gamma and beta, and the values computed from them and from the statistics for
/// BatchNormApply and the backward pass; (channels) each.
struct BatchNormCoefficients {
  const float* gamma;
  const float* beta;
  float* mean;
  float* inverse_deviation;
  float* scale;
  float* offset;

  LOCKSTEP_HOST_DEVICE void set(std::int64_t channel, float average, float inverse) const {
    const float factor = gamma[channel] * inverse;
    mean[channel] = average;
    inverse_deviation[channel] = inverse;
    scale[channel] = factor;
    offset[channel] = beta[channel] - average * factor;
  }
};

/// Destination of the statistics: the coefficients of this batch, and the running statistics, which
/// are updated with weight `momentum` (with the unbiased variance, as in PyTorch).
struct BatchNormOutcome {
  BatchNormCoefficients coefficients;
  float* running_mean;      ///< (channels)
  float* running_variance;  ///< (channels)
  float epsilon, momentum;

  /// Computes the statistics from the sum and the sum of squares of n values, both after
  /// subtracting `shift`.
  LOCKSTEP_HOST_DEVICE void set(std::int64_t channel, double n, double shift, double sum,
                                double square) const {
    const double distance = sum / n;
    const double about_mean = square - n * distance * distance;
    const double squares = about_mean < 0 ? 0 : about_mean;
    const double variance = squares / n;
    const double unbiased = n > 1 ? squares / (n - 1) : variance;
    const auto mean = static_cast<float>(shift + distance);
    coefficients.set(channel, mean,
                     static_cast<float>(1 / std::sqrt(variance + static_cast<double>(epsilon))));
    const float old_mean = running_mean[channel], old_variance = running_variance[channel];
    running_mean[channel] = old_mean + momentum * (mean - old_mean);
    running_variance[channel] =
        old_variance + momentum * (static_cast<float>(unbiased) - old_variance);
  }
};

/// Computes the statistics in `outcome` from `totals` (2 channels + 1), of one or of all replicas.
/// Memory traffic: reads totals, gamma, beta, running_mean (twice), running_variance; writes mean,
/// inverse_deviation, scale, offset, running_mean, running_variance.
template <class T>
struct BatchNormStatistics {
  const float* totals;
  BatchNormShift<T> shift;  ///< as in BatchNormTotals
  BatchNormOutcome outcome;
  std::int64_t channels;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return channels; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t channel) const {
    set(channel, static_cast<double>(totals[2 * channels]));
  }

  LOCKSTEP_HOST_DEVICE void set(std::int64_t channel, double n) const {
    outcome.set(channel, n, static_cast<double>(shift.at(channel)),
                static_cast<double>(totals[channel]),
                static_cast<double>(totals[channels + channel]));
  }
};

/// Combines BatchNormTotals and BatchNormStatistics in one kernel, for totals that are not summed
/// over replicas.
/// Memory traffic: reads partial (uncoalesced), totals, gamma, beta, running_mean (three times),
/// running_variance; writes totals, mean, inverse_deviation, scale, offset, running_mean,
/// running_variance; from caches: x.
template <class T>
struct BatchNormTotalsAndStatistics {
  static constexpr int team = BatchNormTotals<T>::team;

  BatchNormTotals<T> totals;
  BatchNormStatistics<T> statistics;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return totals.count(); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t channel) const {
    totals(channel);
    // The thread that wrote the totals of this channel continues. It takes the number of rows from
    // the kernel's arguments, because another thread may not yet have written it to the totals.
    if (team_lane<team>() == 0) statistics.set(channel, static_cast<double>(totals.rows));
  }
};

/// Computes the statistics in `outcome` from the sums of x and of x x that a cuDNN graph has
/// computed. Because nothing is subtracted from x, float32 sums lose accuracy by cancellation if
/// the mean is large compared to the deviation: the relative error of the variance is about 2^-24
/// mean^2 / variance.
/// Memory traffic: reads sums, squares, gamma, beta, running_mean, running_variance; writes mean,
/// inverse_deviation, scale, offset, running_mean, running_variance.
struct BatchNormStatisticsOfSums {
  const float* sums;     ///< (channels)
  const float* squares;  ///< (channels)
  BatchNormOutcome outcome;
  std::int64_t rows, channels;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return channels; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t channel) const {
    outcome.set(channel, static_cast<double>(rows), 0, static_cast<double>(sums[channel]),
                static_cast<double>(squares[channel]));
  }
};

/// Computes the coefficients from the running statistics instead of the batch statistics.
/// Memory traffic: reads gamma, beta, running_mean, running_variance; writes mean,
/// inverse_deviation, scale, offset.
struct BatchNormInferenceCoefficients {
  const float* running_mean;
  const float* running_variance;
  BatchNormCoefficients coefficients;
  std::int64_t channels;
  float epsilon;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return channels; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t channel) const {
    coefficients.set(channel, running_mean[channel],
                     1 / std::sqrt(running_variance[channel] + epsilon));
  }
};

/// Returns scale x + offset with a single rounding, so that the backward pass, which recomputes the
/// sign of this value, gets exactly the same value.
LOCKSTEP_HOST_DEVICE inline float normalised(float x, float scale, float offset) {
  return std::fma(scale, x, offset);
}

/// Computes y = [relu](scale x + offset [+ residual]). x, y and the residual (null: none) are
/// (rows, channels). y may alias x or the residual.
/// Memory traffic: reads x, residual; writes y; from caches: scale, offset.
template <class T>
struct BatchNormApply {
  const T* x;
  const T* residual;
  T* y;
  const float* scale;   ///< (channels)
  const float* offset;  ///< (channels)
  std::int64_t rows, channels;
  Activation activation = Activation::none;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return rows * channel_groups<T>(channels); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    with_channel_width<T>(channels, [&](auto width) { apply<width>(index); });
  }

 private:
  template <int width>
  LOCKSTEP_HOST_DEVICE void apply(std::int64_t index) const {
    const std::int64_t channel = divide(index, channels / width).remainder * width;
    const auto in = load_pack<width>(x + index * width);
    float scales[width], offsets[width], out[width];
    load_table(scale + channel, scales);
    load_table(offset + channel, offsets);
    for (int lane = 0; lane < width; ++lane)
      out[lane] = normalised(in[lane], scales[lane], offsets[lane]);
    if (residual != nullptr) {
      const auto more = load_pack<width>(residual + index * width);
      for (int lane = 0; lane < width; ++lane) out[lane] += more[lane];
    }
    for (float& value : out) value = activate(value, activation);
    store_pack(y + index * width, out);
  }
};

}  // namespace lockstep::backend::cuda::kernels
