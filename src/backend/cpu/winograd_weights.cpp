// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "vectors.hpp"
#include "winograd_kernels.hpp"
#include "winograd_matrices.hpp"

// The transforms between weights, or their gradient, and panels.

namespace lockstep::backend::cpu::winograd {

namespace {

constexpr int taps = 9;

/// Depth channels whose kernels are read together, because they are next to each other in memory.
constexpr std::int64_t depths_at_once = 8;

/// The kernels of one depth channel: for each of the nine taps the values of all lanes.
template <int W>
struct Taps {
  alignas(64) float of[taps][2 * W];
};

template <int W>
LOCKSTEP_INLINE void weights_to_panel(const Kernels& kernels, std::int64_t panel,
                                      const Panels& to) {
  const std::int64_t stride = to.frequency_stride();
  // The hardware prefetcher does not recognise this pattern.
  const std::int64_t ahead = depths_at_once * kernels.depth_stride * std::int64_t{sizeof(float)};
  Taps<W> some[depths_at_once];
  for (std::int64_t begin = 0; begin < kernels.depth; begin += depths_at_once) {
    const std::int64_t count = std::min(depths_at_once, kernels.depth - begin);
    for (int lane = 0; lane < 2 * W; ++lane) {
      const float* from = kernels.data + begin * kernels.depth_stride +
                          (panel * 2 * W + lane) * kernels.lane_stride;
      for (std::int64_t i = 0; i < count; ++i, from += kernels.depth_stride) {
        prefetch_ahead(from, ahead);
        for (int tap = 0; tap < taps; ++tap)
          some[i].of[kernels.rotated ? taps - 1 - tap : tap][lane] = from[tap];
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      for (int lane = 0; lane < 2 * W; lane += W) {
        float* out = to.at(0, 0, begin + i) + lane;
        transform<G, W>(
            [&](int row, int column) { return load<W>(some[i].of[row * 3 + column] + lane); },
            [&](int row, int column, const Vector<W>& value) {
              store<W>(value, out + (row * G::out + column) * stride);
            });
      }
    }
  }
}

template <int W>
LOCKSTEP_INLINE void panel_to_weight_gradient(const Panels& from, const Kernels& kernels,
                                              std::int64_t first_depth, std::int64_t panel,
                                              bool accumulate) {
  const std::int64_t stride = from.frequency_stride();
  Taps<W> g;
  for (std::int64_t entry = 0; entry < from.entries; ++entry) {
    for (int lane = 0; lane < 2 * W; lane += W) {
      const float* in = from.at(0, 0, entry) + lane;
      transform<Gt, W>(
          [&](int row, int column) { return load<W>(in + (row * Gt::in + column) * stride); },
          [&](int row, int column, const Vector<W>& value) {
            store<W>(value, g.of[row * 3 + column] + lane);
          });
    }
    float* first = kernels.data + (first_depth + entry) * kernels.depth_stride +
                   panel * 2 * W * kernels.lane_stride;
    for (int lane = 0; lane < 2 * W; ++lane) {
      float* to = first + lane * kernels.lane_stride;
      prefetch_ahead<1>(to, kernels.depth_stride * std::int64_t{sizeof(float)});
      for (int tap = 0; tap < taps; ++tap)
        to[tap] = accumulate ? to[tap] + g.of[tap][lane] : g.of[tap][lane];
    }
  }
}

}  // namespace

LOCKSTEP_CLONES void transform_weights(const Kernels& kernels, std::int64_t panel,
                                       const Panels& to) {
  if (to.vector_lanes == 16) {
    weights_to_panel<16>(kernels, panel, to);
  } else {
    weights_to_panel<8>(kernels, panel, to);
  }
}

LOCKSTEP_CLONES void transform_weight_gradient(const Panels& from, const Kernels& kernels,
                                               std::int64_t first_depth, std::int64_t panel,
                                               bool accumulate) {
  if (from.vector_lanes == 16) {
    panel_to_weight_gradient<16>(from, kernels, first_depth, panel, accumulate);
  } else {
    panel_to_weight_gradient<8>(from, kernels, first_depth, panel, accumulate);
  }
}

}  // namespace lockstep::backend::cpu::winograd
