// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "winograd_kernels.hpp"

// Minimal filtering of 3x3 convolutions of stride 2. In each dimension, the even taps 0 and 2 see
// the odd pixels only, and tap 1 sees the even pixels only:
//
//   y[i] = (w0 e[i] + w2 e[i + 1]) + w1 o[i]    with e[i] = x[2 i - 1], o[i] = x[2 i]
//
// The sum in parentheses is a convolution of stride 1 with two taps, for which F(4, 2) needs 5
// products for 4 outputs; w1 needs one product for each. So a 4x4 tile of the output takes
// (5 + 4)^2 = 81 products per pair of channels instead of 144. The points of F(4, 2) are
// +-1/sqrt(2), +-sqrt(2) and infinity. The 4 products with w1 use the same transformed weight: the
// 6x6 transformed weights are each used by 1, 4 or 16 products of a tile (`Panels`).
//
// The functions correspond to those of winograd_kernels.hpp. Tiles are those of the output; they
// correspond to tiles of 8x8 pixels of the input.

namespace lockstep::backend::cpu::winograd::strided {

inline constexpr std::int64_t source_tile_size = 2 * tile_size;

void transform_input(const FeatureMap& map, Tiling tiling, TileRange range, const Panels& to,
                     std::int64_t first_entry);
void transform_gradient(const FeatureMap& map, Tiling tiling, TileRange range, const Panels& to,
                        std::int64_t first_entry, float* sums);
/// Transforms the output gradient for the input gradient.
void transform_gradient_patch(const FeatureMap& map, Tiling tiling, TileRange range,
                              const Panels& to, std::int64_t first_entry);
void transform_output(const Panels& from, std::int64_t first_entry, const FeatureMap& map,
                      Tiling tiling, TileRange range, std::int64_t panel, const float* bias,
                      PartialSums* statistics);
/// Transforms the products to the input gradient, as `transform_output`.
void transform_input_gradient(const Panels& from, std::int64_t first_entry, const FeatureMap& map,
                              Tiling tiling, TileRange range, std::int64_t panel, const float* bias,
                              PartialSums* statistics);
void transform_weights(const Kernels& kernels, std::int64_t panel, const Panels& to);
void transform_weight_gradient(const Panels& from, const Kernels& kernels, std::int64_t first_depth,
                               std::int64_t panel, bool accumulate);

}  // namespace lockstep::backend::cpu::winograd::strided
