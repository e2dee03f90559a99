#pragma once

// Batch norm, forward (Ioffe and Szegedy, 2015), with the addition and the ReLU behind it, over x
// (rows, channels), rows being all pixels of all images:
//   1. BatchNormSums: per slab of rows, sums of x - k and (x - k)^2. k, near the mean, keeps the
//      squares from cancelling.
//   2. BatchNormTotals: their totals, (2 channels + 1) float32: sums, squares, and the number of
//      rows. Summed over the replicas outside where batch norm runs over all of them.
//   3. BatchNormStatistics: mean, 1 / deviation, the running statistics' step, scale and offset.
//   4. BatchNormApply: y = [relu](scale x + offset [+ residual]),
//      scale = gamma / deviation, offset = beta - mean scale.
// Without replicas 2 and 3 are one kernel, BatchNormTotalsAndStatistics. Where a graph of cuDNN has
// summed x already, BatchNormStatisticsOfSums takes the place of 1 to 3; in inference
// BatchNormInferenceCoefficients does.
//
// Reads x twice and the residual once, writes y once; the partial sums are small beside them.

#include <cmath>

#include "slabs.hpp"

namespace lockstep::backend::cuda::kernels {

/// What the sums of one map are taken about. With `common` (channels), a shift that all replicas
/// share (the running mean), totals of replicas can be added up; without, it is the first pixel of
/// x.
template <class T>
struct BatchNormShift {
  const T* x;
  const float* common;

  LOCKSTEP_HOST_DEVICE float at(std::int64_t channel) const {
    return common != nullptr ? common[channel] : load(x, channel);
  }
};

/// Floats of `partial` for a map cut into `slabs`: (slabs, 2, channels).
constexpr std::int64_t batch_norm_partial_size(std::int64_t slabs, std::int64_t channels) {
  return 2 * slabs * channels;
}

/// x (rows, channels) to `partial` (slabs, 2, channels): sums of x - first pixel, and their
/// squares.
template <class T>
struct BatchNormSums {
  const T* x;
  float* partial;
  std::int64_t rows, channels, slabs;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const {
    return slabs * (channels / channel_width<T>(channels));
  }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    if (channel_width<T>(channels) > 1) {
      sum<lanes_of<T>>(index);
    } else {
      sum<1>(index);
    }
  }

 private:
  template <int width>
  LOCKSTEP_HOST_DEVICE void sum(std::int64_t index) const {
    const auto [slab, group] = divide(index, channels / width);
    const T* const from = x + group * width;
    const auto shift = load_pack<width>(from);
    float sums[width] = {}, squares[width] = {};
    stream_rows<4>(
        slab_rows(slab, slabs, rows),
        [&](std::int64_t row) { return load_pack<width>(from + row * channels); },
        [&](std::int64_t, const Pack<T, width>& values) {
          for (int lane = 0; lane < width; ++lane) {
            const float difference = values[lane] - shift[lane];
            sums[lane] += difference;
            squares[lane] += difference * difference;
          }
        });
    float* const to = partial + 2 * slab * channels + group * width;
    store_pack<width>(to, sums);
    store_pack<width>(to + channels, squares);
  }
};

/// `partial` (slabs, 2, channels) to `totals` (2 channels + 1): sums of x - shift, sums of its
/// squares, rows.
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
    // From the first pixel to the common shift, d away: sum (v + d)^2 = sum v^2 + d (2 sum v + n
    // d).
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

/// What a batch norm's forward pass leaves for its apply and its backward pass, (channels) each.
struct BatchNormCoefficients {
  const float* gamma;
  const float* beta;
  float* mean;
  float* inverse_deviation;
  float* scale;
  float* offset;

  LOCKSTEP_HOST_DEVICE void set(std::int64_t channel, float average, float inverse) const {
    mean[channel] = average;
    inverse_deviation[channel] = inverse;
    scale[channel] = gamma[channel] * inverse;
    offset[channel] = beta[channel] - average * scale[channel];
  }
};

/// Where statistics go: the coefficients of this batch, and the running statistics, which move by
/// `momentum` towards it (the variance unbiased, as in PyTorch).
struct BatchNormOutcome {
  BatchNormCoefficients coefficients;
  float* running_mean;      ///< (channels)
  float* running_variance;  ///< (channels)
  float epsilon, momentum;

  /// From `n` values: their sum and the sum of their squares about `shift`.
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
    running_mean[channel] += momentum * (mean - running_mean[channel]);
    running_variance[channel] +=
        momentum * (static_cast<float>(unbiased) - running_variance[channel]);
  }
};

/// `totals` (2 channels + 1), of this or of all replicas, to their outcome.
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

/// Both in one kernel, where nothing is exchanged between them.
template <class T>
struct BatchNormTotalsAndStatistics {
  static constexpr int team = BatchNormTotals<T>::team;

  BatchNormTotals<T> totals;
  BatchNormStatistics<T> statistics;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return totals.count(); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t channel) const {
    totals(channel);
    // The thread that wrote the channel's totals goes on; the rows are another channel's to write.
    if (team_lane<team>() == 0) statistics.set(channel, static_cast<double>(totals.rows));
  }
};

/// Sums of x and of its squares, as cuDNN's graphs leave them, to their outcome;
/// scale and offset again as float16, for graphs that read them so. The squares of float32 sums
/// cancel where the mean is far from 0 against the deviation: 2^-24 mean^2 / variance is lost.
struct BatchNormStatisticsOfSums {
  const float* sums;     ///< (channels)
  const float* squares;  ///< (channels)
  BatchNormOutcome outcome;
  Float16* half_scale;   ///< (channels); null: not wanted
  Float16* half_offset;  ///< (channels); null: not wanted
  std::int64_t rows, channels;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return channels; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t channel) const {
    outcome.set(channel, static_cast<double>(rows), 0, static_cast<double>(sums[channel]),
                static_cast<double>(squares[channel]));
    if (half_scale == nullptr) return;
    store(half_scale, channel, outcome.coefficients.scale[channel]);
    store(half_offset, channel, outcome.coefficients.offset[channel]);
  }
};

/// Running statistics in the place of the batch's.
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

/// scale x + offset in one rounding: what the backward pass finds the sign of must be the same
/// number.
LOCKSTEP_HOST_DEVICE inline float normalised(float x, float scale, float offset) {
  return std::fma(scale, x, offset);
}

/// x, residual (null: none), y (rows, channels); y may be x or the residual.
template <class T>
struct BatchNormApply {
  const T* x;
  const T* residual;
  T* y;
  const float* scale;   ///< (channels)
  const float* offset;  ///< (channels)
  std::int64_t rows, channels;
  Activation activation = Activation::none;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const {
    return rows * (channels / channel_width<T>(channels));
  }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    if (channel_width<T>(channels) > 1) {
      apply<lanes_of<T>>(index);
    } else {
      apply<1>(index);
    }
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
