#pragma once

// Fully connected layer in float32: x (rows, inputs), w (outputs, inputs), y (rows, outputs).
//   y = x w^T + bias;  dx = dy w;  dw = dy^T x;  dbias = sum over rows of dy
// The layer takes little time compared to the convolutions, so the kernels compute plain sums.
// Memory accesses of neighbouring threads are contiguous.

#include "slabs.hpp"

namespace lockstep::backend::cuda::kernels {

/// Returns the sum of `read(0)` to `read(n - 1)`, computed by one thread with 8 accumulators, so
/// that 8 loads can be in flight.
template <class Read>
LOCKSTEP_HOST_DEVICE float chained_sum(std::int64_t n, Read read) {
  constexpr int chains = 8;
  float sums[chains] = {};
  std::int64_t i = 0;
  for (; i + chains <= n; i += chains) {
    for (int chain = 0; chain < chains; ++chain) sums[chain] += read(i + chain);
  }
  for (; i < n; ++i) sums[0] += read(i);
  float sum = 0;
  for (const float chain : sums) sum += chain;
  return sum;
}

/// Computes y. bias (outputs); null: none. One warp computes one element of y.
/// Memory traffic: reads x (once per output), w (once per row); writes y; from caches: bias.
struct LinearForward {
  static constexpr int team = 32;

  const float* x;
  const float* w;
  const float* bias;
  float* y;
  std::int64_t rows, inputs, outputs;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return rows * outputs; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const Division at = divide(index, outputs);
    const float* const left = x + at.quotient * inputs;
    const float* const right = w + at.remainder * inputs;
    const float sum =
        team_sum<team, float>(inputs, [&](std::int64_t i) { return left[i] * right[i]; });
    if (team_lane<team>() == 0) y[index] = bias != nullptr ? sum + bias[at.remainder] : sum;
  }
};

/// Computes dx. One thread computes one element.
/// Memory traffic: reads w (once per row); writes dx; from caches: dy.
struct LinearInputGradient {
  const float* dy;
  const float* w;
  float* dx;
  std::int64_t rows, inputs, outputs;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return rows * inputs; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const Division at = divide(index, inputs);
    const float* const gradients = dy + at.quotient * outputs;
    const float* const weights = w + at.remainder;
    const std::int64_t step = inputs;
    dx[index] =
        chained_sum(outputs, [&](std::int64_t k) { return gradients[k] * weights[k * step]; });
  }
};

/// Computes the gradients of weights and bias summed over the rows of each slab (slabs.hpp): dw
/// (slabs, outputs, inputs), dbias (slabs, outputs). One thread computes 16 bytes of dw, or one
/// element of dbias. If there is one slab, these are the gradients.
/// Memory traffic: reads x (once per output); writes dw, dbias; from caches: dy.
struct LinearGradientSlabs {
  const float* dy;
  const float* x;
  float* dw;
  float* dbias;
  std::int64_t rows, inputs, outputs, slabs;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const {
    constexpr int lanes = lanes_of<float>;
    return slabs * outputs * (inputs % lanes == 0 ? groups<lanes>() : groups<1>());
  }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    if (channel_width<float>(inputs) > 1) {
      sum<lanes_of<float>>(index);
    } else {
      sum<1>(index);
    }
  }

 private:
  /// Groups of inputs of one output; the last group is dbias.
  template <int width>
  LOCKSTEP_HOST_DEVICE std::int64_t groups() const {
    return inputs / width + 1;
  }

  template <int width>
  LOCKSTEP_HOST_DEVICE void sum(std::int64_t index) const {
    struct Row {
      Pack<float, width> x;
      float dy;
    };
    const auto [slab_output, group] = divide(index, groups<width>());
    const auto [slab, output] = divide(slab_output, outputs);
    const RowRange range = slab_rows(slab, slabs, rows);
    const float* const gradients = dy + output;
    if (group == inputs / width) {
      dbias[slab_output] = chained_sum(range.end - range.begin, [&](std::int64_t row) {
        return gradients[(range.begin + row) * outputs];
      });
      return;
    }
    const float* const values = x + group * width;
    float sums[width] = {};
    stream_rows<8>(
        range,
        [&](std::int64_t row) {
          return Row{load_pack<width>(values + row * inputs), gradients[row * outputs]};
        },
        [&](std::int64_t, const Row& row) {
          for (int lane = 0; lane < width; ++lane) sums[lane] += row.dy * row.x[lane];
        });
    store_pack<width>(dw + slab_output * inputs + group * width, sums);
  }
};

/// Sums the results of `LinearGradientSlabs` over the slabs.
/// Memory traffic: reads slab_dw, slab_dbias; writes dw, dbias.
struct LinearGradientTotals {
  const float* slab_dw;     ///< (slabs, outputs, inputs)
  const float* slab_dbias;  ///< (slabs, outputs)
  float* dw;
  float* dbias;
  std::int64_t inputs, outputs, slabs;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return outputs * inputs + outputs; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const std::int64_t weights = outputs * inputs;
    if (index < weights) {
      dw[index] = total(slab_dw + index, weights);
    } else {
      dbias[index - weights] = total(slab_dbias + (index - weights), outputs);
    }
  }

 private:
  LOCKSTEP_HOST_DEVICE float total(const float* from, std::int64_t step) const {
    return chained_sum(slabs, [&](std::int64_t slab) { return from[slab * step]; });
  }
};

}  // namespace lockstep::backend::cuda::kernels
