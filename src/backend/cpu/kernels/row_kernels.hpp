// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "../../feature_map.hpp"
#include "lockstep/core/data_type.hpp"

// The passes over feature maps that are limited by memory bandwidth rather than arithmetic, one
// plane at a time. Coefficients are rows of `tiling.width` floats, in which the values of the lanes
// are repeated. All arithmetic is float32; T is float or BFloat16.

namespace lockstep::backend::cpu {

/// Division of a plane, or of a part of it, for a kernel: `rows` rows of `width` elements, which
/// begin `stride` elements apart. A row of coefficients holds the values of all lanes `repeat`
/// times.
struct RowTiling {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t repeat = 0;
  std::int64_t stride = 0;
};
/// Returns rows of as few elements as make up whole vectors of 16 elements. If no row of up to 128
/// elements does, returns the longest such rows, but at least one pixel per row. `rows` counts all
/// images of a block; see `rows_of_plane` for blocks with fewer images.
RowTiling tile_rows(const FeatureMap& map);
/// Returns the number of rows of a plane in a block of images.
std::int64_t rows_of_plane(const RowTiling& tiling, const FeatureMap& map,
                           std::int64_t image_block);

enum class Activation { none, relu };

/// Selects the elements of a gradient that pass a ReLU.
enum class Mask {
  none,    ///< all
  affine,  ///< if scale * x + offset > 0: recomputed, so that the output need not be read
  output,  ///< if the output y > 0
};

/// Computes sum += x - shift and square += (x - shift)^2 for each element of a row; the caller adds
/// up the repeats. A shift near the mean avoids cancellation in the variance.
void accumulate(const float* x, RowTiling tiling, const float* shift, float* sum, float* square);
void accumulate(const core::BFloat16* x, RowTiling tiling, const float* shift, float* sum,
                float* square);

/// y = activation(scale * x + offset [+ residual]).
template <class T>
struct NormaliseRows {
  const T* x = nullptr;
  const T* residual = nullptr;  ///< or null
  T* y = nullptr;
  const float* scale = nullptr;
  const float* offset = nullptr;
  Activation activation = Activation::none;
};
void normalise(const NormaliseRows<float>& rows, RowTiling tiling);
void normalise(const NormaliseRows<core::BFloat16>& rows, RowTiling tiling);

/// g = mask(dy [+ dy2]): the gradient with respect to the input of the activation.
template <class T>
struct GradientRows {
  const T* dy = nullptr;
  const T* dy2 = nullptr;  ///< or null
  const T* x = nullptr;
  const T* y = nullptr;          ///< for Mask::output
  const float* scale = nullptr;  ///< for Mask::affine, but never null
  const float* offset = nullptr;
  Mask mask = Mask::none;
  T* masked = nullptr;  ///< g is stored here; null if not needed; may be dy or dy2
};

/// Computes sum += g and product += g * (x - center); writes g to `masked` if it is not null.
void gradient_sums(const GradientRows<float>& rows, RowTiling tiling, const float* center,
                   float* sum, float* product);
void gradient_sums(const GradientRows<core::BFloat16>& rows, RowTiling tiling, const float* center,
                   float* sum, float* product);

/// dx = a * g + b * x + c.
struct InputGradientCoefficients {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* c = nullptr;
};
void input_gradient(const GradientRows<float>& rows, float* dx, RowTiling tiling,
                    InputGradientCoefficients coefficients);
void input_gradient(const GradientRows<core::BFloat16>& rows, core::BFloat16* dx, RowTiling tiling,
                    InputGradientCoefficients coefficients);

/// Computes to += from.
void add_into(const float* from, float* to, std::int64_t count);
void add_into(const core::BFloat16* from, core::BFloat16* to, std::int64_t count);

}  // namespace lockstep::backend::cpu
