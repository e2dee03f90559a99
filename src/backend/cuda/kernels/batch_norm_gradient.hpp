// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Backward pass of batch norm, fused with the backward pass of the ReLU and of the residual
// addition that follow it. Feature maps are (rows, channels), where rows are all pixels of all
// images.
//   1. BatchNormGradientSums: g = dy [+ dy2] where the ReLU was active, else 0; for each slab
//      (range of rows), the sums of g and of g xhat, with xhat = (x - mean) / deviation. If there
//      is a residual, g is its gradient and is stored (`masked`).
//   2. BatchNormGradientTotals: sums over all slabs, (2 channels) float32. They are also the
//      gradients of beta and gamma. For batch norm over all replicas, the caller sums the totals
//      over the replicas.
//   3. BatchNormGradientCoefficients: a, b and c (channels) of dx = a g + b x + c, which equals
//        gamma / deviation (g - mean(g) - xhat mean(g xhat)),
//      with means over the rows of all replicas.
//   4. BatchNormInputGradient: dx.
// For batch norm over one replica, a single kernel does 2 and 3:
// BatchNormGradientTotalsAndCoefficients.
//
// Memory traffic: x and dy (also dy2 and y, if given) are read twice and dx is written once. If g
// is stored, dy, dy2 and y are read once, and g is written once and read once.

#include "batch_norm.hpp"

namespace lockstep::backend::cuda::kernels {

/// Condition under which the ReLU was active: always (`none`: no ReLU); the stored y > 0
/// (`output`); or the recomputed scale x + offset > 0 (`normalised`), which is equivalent without a
/// residual and does not read y.
enum class ReluMask { none, output, normalised };

/// Consecutive elements of the maps: x, and g = dy [+ dy2] where the ReLU was active, else 0.
template <int width>
struct GradientPiece {
  float x[width], g[width];
};

/// Feature maps (rows, channels) from which the gradient of a batch norm is computed.
template <class T>
struct GradientMaps {
  const T* x;
  const T* dy;
  const T* dy2;  ///< null: none
  const T* y;    ///< for ReluMask::output
  ReluMask mask;
  const float* scale;   ///< (channels), for ReluMask::normalised
  const float* offset;  ///< (channels), for ReluMask::normalised

  /// Returns the elements that begin at index `at`. `scales` and `offsets`: values of their
  /// channels, used with ReluMask::normalised.
  template <int width>
  LOCKSTEP_HOST_DEVICE GradientPiece<width> read(std::int64_t at, const float (&scales)[width],
                                                 const float (&offsets)[width]) const {
    GradientPiece<width> piece;
    const auto values = load_pack<width>(x + at);
    const auto gradients = load_pack<width>(dy + at);
    for (int lane = 0; lane < width; ++lane) {
      piece.x[lane] = values[lane];
      piece.g[lane] = gradients[lane];
    }
    if (dy2 != nullptr) {
      const auto more = load_pack<width>(dy2 + at);
      for (int lane = 0; lane < width; ++lane) piece.g[lane] += more[lane];
    }
    if (mask == ReluMask::output) {
      const auto outputs = load_pack<width>(y + at);
      for (int lane = 0; lane < width; ++lane)
        piece.g[lane] = outputs[lane] > 0 ? piece.g[lane] : 0.0f;
    } else if (mask == ReluMask::normalised) {
      for (int lane = 0; lane < width; ++lane) {
        const bool passes = normalised(piece.x[lane], scales[lane], offsets[lane]) > 0;
        piece.g[lane] = passes ? piece.g[lane] : 0.0f;
      }
    }
    return piece;
  }

  /// Loads scale and offset for ReluMask::normalised; for other masks, sets them to 0.
  template <int width>
  LOCKSTEP_HOST_DEVICE void read_tables(std::int64_t channel, float (&scales)[width],
                                        float (&offsets)[width]) const {
    for (int lane = 0; lane < width; ++lane) scales[lane] = offsets[lane] = 0;
    if (mask != ReluMask::normalised) return;
    load_table(scale + channel, scales);
    load_table(offset + channel, offsets);
  }
};

/// Computes `partial` (slabs, 2, channels): for each slab, the sums of g and of g xhat.
/// Memory traffic: reads x, dy, dy2, y; writes masked, partial; from caches: mean,
/// inverse_deviation.
template <class T>
struct BatchNormGradientSums {
  static constexpr int team = block_threads;
  static constexpr int resident_blocks = slab_blocks;

  GradientMaps<T> maps;
  T* masked;                       ///< output g (rows, channels); null: not stored
  const float* mean;               ///< (channels)
  const float* inverse_deviation;  ///< (channels)
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

  /// Adds the rows of a thread to `sums`: first g, then g xhat.
  template <int width>
  LOCKSTEP_HOST_DEVICE void add_rows(const SlabBlock<width>& block, int thread,
                                     float (&sums)[2 * width]) const {
    const std::int64_t channel = block.channel(thread);
    float scales[width], offsets[width], means[width];
    maps.read_tables(channel, scales, offsets);
    load_table(mean + channel, means);
    stream_rows<2>(
        block.first_row(thread), block.rows.end, block.threads.rows_at_once,
        [&](std::int64_t row) {
          return maps.template read<width>(row * channels + channel, scales, offsets);
        },
        [&](std::int64_t row, const GradientPiece<width>& piece) {
          for (int lane = 0; lane < width; ++lane) {
            sums[lane] += piece.g[lane];
            sums[width + lane] += piece.g[lane] * (piece.x[lane] - means[lane]);
          }
          if (masked != nullptr) store_pack(masked + row * channels + channel, piece.g);
        });
    float inverses[width];
    load_table(inverse_deviation + channel, inverses);
    for (int lane = 0; lane < width; ++lane) sums[width + lane] *= inverses[lane];
  }
};

/// Computes `totals` (2 channels) from `partial` (slabs, 2, channels): the sums of g and of g xhat.
/// Memory traffic: reads partial (uncoalesced); writes totals, beta_gradient, gamma_gradient.
struct BatchNormGradientTotals {
  static constexpr int team = 256;

  const float* partial;
  float* totals;
  float* beta_gradient;   ///< (channels), of this replica
  float* gamma_gradient;  ///< (channels), of this replica
  std::int64_t channels, slabs;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return channels; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t channel) const {
    const float* const from = partial + channel;
    const double sum = team_sum<team, double>(
        slabs, [&](std::int64_t slab) -> double { return from[2 * slab * channels]; });
    const double product = team_sum<team, double>(
        slabs, [&](std::int64_t slab) -> double { return from[(2 * slab + 1) * channels]; });
    if (team_lane<team>() != 0) return;
    const auto beta = static_cast<float>(sum), gamma = static_cast<float>(product);
    totals[channel] = beta;
    beta_gradient[channel] = beta;
    totals[channels + channel] = gamma;
    gamma_gradient[channel] = gamma;
  }
};

/// Computes a, b and c (channels) from `totals` (2 channels), of one or of all replicas.
/// Memory traffic: reads totals, gamma, mean, inverse_deviation; writes a, b, c; from caches:
/// all_rows.
struct BatchNormGradientCoefficients {
  const float* totals;
  /// Number of rows of all replicas, stored at &totals[2 channels] of the forward pass; null:
  /// `rows`.
  const float* all_rows;
  std::int64_t rows;  ///< number of rows of this replica
  const float* gamma;
  const float* mean;
  const float* inverse_deviation;
  float* a;
  float* b;
  float* c;
  std::int64_t channels;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return channels; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t channel) const {
    const double n =
        all_rows != nullptr ? static_cast<double>(*all_rows) : static_cast<double>(rows);
    const auto inverse = static_cast<double>(inverse_deviation[channel]);
    const double scale = static_cast<double>(gamma[channel]) * inverse;
    const double slope = -scale * inverse * static_cast<double>(totals[channels + channel]) / n;
    a[channel] = static_cast<float>(scale);
    b[channel] = static_cast<float>(slope);
    c[channel] = static_cast<float>(-scale * static_cast<double>(totals[channel]) / n -
                                    slope * static_cast<double>(mean[channel]));
  }
};

/// Combines BatchNormGradientTotals and BatchNormGradientCoefficients in one kernel, for totals
/// that are not summed over replicas.
/// Memory traffic: reads partial (uncoalesced), totals, gamma, mean, inverse_deviation; writes
/// totals, beta_gradient, gamma_gradient, a, b, c; from caches: all_rows.
struct BatchNormGradientTotalsAndCoefficients {
  static constexpr int team = BatchNormGradientTotals::team;

  BatchNormGradientTotals totals;
  BatchNormGradientCoefficients coefficients;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return totals.count(); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t channel) const {
    totals(channel);
    if (team_lane<team>() == 0) coefficients(channel);
  }
};

/// Computes dx = a g + b x + c (rows, channels). dx may alias dy, dy2 or x. If g was stored
/// (`masked`), pass it as maps.dy with ReluMask::none.
/// Memory traffic: reads x, dy, dy2, y; writes dx; from caches: a, b, c.
template <class T>
struct BatchNormInputGradient {
  static constexpr int resident_blocks = 4;

  GradientMaps<T> maps;
  const float* a;  ///< (channels)
  const float* b;  ///< (channels)
  const float* c;  ///< (channels)
  T* dx;
  std::int64_t rows, channels;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return rows * channel_groups<T>(channels); }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    with_channel_width<T>(channels, [&](auto width) { compute<width>(index); });
  }

 private:
  template <int width>
  LOCKSTEP_HOST_DEVICE void compute(std::int64_t index) const {
    const std::int64_t channel = divide(index, channels / width).remainder * width;
    float scales[width], offsets[width], slopes[width], factors[width], constants[width];
    maps.read_tables(channel, scales, offsets);
    load_table(a + channel, factors);
    load_table(b + channel, slopes);
    load_table(c + channel, constants);
    const auto piece = maps.template read<width>(index * width, scales, offsets);
    float out[width];
    for (int lane = 0; lane < width; ++lane)
      out[lane] = factors[lane] * piece.g[lane] + slopes[lane] * piece.x[lane] + constants[lane];
    store_pack(dx + index * width, out);
  }
};

}  // namespace lockstep::backend::cuda::kernels
