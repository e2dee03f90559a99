#pragma once

// Batch norm, backward, through the ReLU and the addition behind it, over maps (rows, channels):
//   1. BatchNormGradientSums: g = dy [+ dy2] where the ReLU let through, else 0; per slab of rows,
//      sums of g and g xhat, xhat = (x - mean) / deviation. With a residual, g is its gradient and
//      is kept (`masked`).
//   2. BatchNormGradientTotals: their totals, (2 channels) float32, and the gradients of beta and
//      gamma, which are these. The totals are summed over the replicas outside where batch norm
//      runs over all of them.
//   3. BatchNormGradientCoefficients: of dx = a g + b x + c, which is
//      gamma / deviation (g - mean(g) - xhat mean(g xhat)), the means over all replicas' rows.
//   4. BatchNormInputGradient: dx.
// Without replicas 2 and 3 are one kernel, BatchNormGradientTotalsAndCoefficients. Where a graph of
// cuDNN has summed g and g x, BatchNormGradientOfSums takes the place of 2 and 3.
//
// Reads dy and x twice (and dy2, y where given) and writes dx once.

#include "batch_norm.hpp"

namespace lockstep::backend::cuda::kernels {

/// Where a ReLU let a value through: not asked (no ReLU); where the stored y > 0; or where the
/// normalised x > 0, which is the same without a residual and reads no y.
enum class ReluMask { none, output, normalised };

/// A piece of the maps: x, and g = dy [+ dy2] where the ReLU let through, else 0.
template <int width>
struct GradientPiece {
  float x[width], g[width];
};

/// Maps (rows, channels) that a batch norm's gradient is made from.
template <class T>
struct GradientMaps {
  const T* x;
  const T* dy;
  const T* dy2;  ///< null: none
  const T* y;    ///< for ReluMask::output
  ReluMask mask;
  const float* scale;   ///< (channels), for ReluMask::normalised
  const float* offset;  ///< (channels), for ReluMask::normalised

  /// The piece that begins at element `at`; `scales` and `offsets` are its channels', for
  /// ReluMask::normalised.
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

  /// Reads the tables of ReluMask::normalised; the others leave zeros.
  template <int width>
  LOCKSTEP_HOST_DEVICE void read_tables(std::int64_t channel, float (&scales)[width],
                                        float (&offsets)[width]) const {
    for (int lane = 0; lane < width; ++lane) scales[lane] = offsets[lane] = 0;
    if (mask != ReluMask::normalised) return;
    load_table(scale + channel, scales);
    load_table(offset + channel, offsets);
  }
};

/// To `partial` (slabs, 2, channels): sums of g and of g xhat.
template <class T>
struct BatchNormGradientSums {
  GradientMaps<T> maps;
  T* masked;                       ///< g (rows, channels) is written here; null: nowhere
  const float* mean;               ///< (channels)
  const float* inverse_deviation;  ///< (channels)
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
    const std::int64_t channel = group * width;
    float scales[width], offsets[width], means[width], inverses[width];
    maps.read_tables(channel, scales, offsets);
    load_table(mean + channel, means);
    load_table(inverse_deviation + channel, inverses);
    float sums[width] = {}, products[width] = {};
    stream_rows<2>(
        slab_rows(slab, slabs, rows),
        [&](std::int64_t row) {
          return maps.template read<width>(row * channels + channel, scales, offsets);
        },
        [&](std::int64_t row, const GradientPiece<width>& piece) {
          for (int lane = 0; lane < width; ++lane) {
            sums[lane] += piece.g[lane];
            products[lane] += piece.g[lane] * (piece.x[lane] - means[lane]) * inverses[lane];
          }
          if (masked != nullptr) store_pack(masked + row * channels + channel, piece.g);
        });
    float* const to = partial + 2 * slab * channels + channel;
    store_pack(to, sums);
    store_pack(to + channels, products);
  }
};

/// `partial` (slabs, 2, channels) to `totals` (2 channels): sums of g, sums of g xhat.
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
    totals[channel] = beta_gradient[channel] = static_cast<float>(sum);
    totals[channels + channel] = gamma_gradient[channel] = static_cast<float>(product);
  }
};

/// `totals` (2 channels), of this or of all replicas, to a, b, c (channels).
struct BatchNormGradientCoefficients {
  const float* totals;
  const float* all_rows;  ///< of all replicas: &totals[2 channels] of the forward pass; null: rows
  std::int64_t rows;      ///< of this replica
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

/// Both in one kernel, where nothing is exchanged between them.
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

/// Sums of g and of g x, as cuDNN's graphs leave them, to all of the above.
struct BatchNormGradientOfSums {
  const float* sums;      ///< (channels)
  const float* products;  ///< (channels)
  float* beta_gradient;   ///< (channels)
  float* gamma_gradient;  ///< (channels)
  BatchNormGradientCoefficients coefficients;
  float* totals;  ///< (2 channels), those of `coefficients`

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return coefficients.channels; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t channel) const {
    const std::int64_t channels = coefficients.channels;
    const auto sum = static_cast<double>(sums[channel]);
    const auto product = static_cast<double>(products[channel]);
    const auto mean = static_cast<double>(coefficients.mean[channel]);
    totals[channel] = beta_gradient[channel] = sums[channel];
    totals[channels + channel] = gamma_gradient[channel] = static_cast<float>(
        (product - mean * sum) * static_cast<double>(coefficients.inverse_deviation[channel]));
    coefficients(channel);
  }
};

/// dx (rows, channels) = a g + b x + c; it may be dy, dy2 or x. Where g was kept (`masked`), give
/// it as maps.dy with ReluMask::none.
template <class T>
struct BatchNormInputGradient {
  GradientMaps<T> maps;
  const float* a;  ///< (channels)
  const float* b;  ///< (channels)
  const float* c;  ///< (channels)
  T* dx;
  std::int64_t rows, channels;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const {
    return rows * (channels / channel_width<T>(channels));
  }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    if (channel_width<T>(channels) > 1) {
      compute<lanes_of<T>>(index);
    } else {
      compute<1>(index);
    }
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
