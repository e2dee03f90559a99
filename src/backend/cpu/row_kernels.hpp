#pragma once

#include <cstdint>

#include "../feature_map.hpp"
#include "lockstep/core/data_type.hpp"

// The passes over feature maps that are memory traffic rather than arithmetic, one plane at a time.
// Coefficients are rows of `tiling.width` floats: the value for each lane, repeated. All arithmetic
// is float32; T is float or BFloat16.

namespace lockstep::backend::cpu {

/// How a kernel walks over one plane: `rows` rows of `width` elements, with coefficients per lane
/// repeated `repeat` times to fill a row. Rows are long enough for vector code to be efficient
/// whatever the layout.
struct RowTiling {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t repeat = 0;
};
RowTiling tile_rows(const FeatureMap& map);

enum class Activation { none, relu };

/// Which elements of a gradient pass a ReLU.
enum class Mask {
  none,    ///< all
  affine,  ///< where scale * x + offset > 0: recomputed, so that the output need not be read
  output,  ///< where the output y > 0
};

/// sum += x - shift, square += (x - shift)^2, element by element of a row; the caller adds up the
/// repeats. A shift near the mean keeps the variance from cancelling.
void accumulate(const float* x, RowTiling tiling, const float* shift, float* sum, float* square);
void accumulate(const core::BFloat16* x, RowTiling tiling, const float* shift, float* sum,
                float* square);

/// y = activation(scale * x + offset [+ residual]).
template <class T>
struct NormaliseRows {
  const T* x = nullptr;
  const T* residual = nullptr;  ///< or null
  T* y = nullptr;
  Activation activation = Activation::none;
};
void normalise(const NormaliseRows<float>& rows, RowTiling tiling, const float* scale,
               const float* offset);
void normalise(const NormaliseRows<core::BFloat16>& rows, RowTiling tiling, const float* scale,
               const float* offset);

/// g = mask(dy [+ dy2]): the gradient behind the activation.
template <class T>
struct GradientRows {
  const T* dy = nullptr;
  const T* dy2 = nullptr;  ///< or null
  const T* x = nullptr;
  const T* y = nullptr;  ///< for Mask::output
  Mask mask = Mask::none;
  T* masked = nullptr;  ///< where g is kept, or null; may be dy or dy2
};

/// sum += g, product += g * (x - center); writes g to `masked` where asked.
void gradient_sums(const GradientRows<float>& rows, RowTiling tiling, const float* scale,
                   const float* offset, const float* center, float* sum, float* product);
void gradient_sums(const GradientRows<core::BFloat16>& rows, RowTiling tiling, const float* scale,
                   const float* offset, const float* center, float* sum, float* product);

/// dx = a * g + b * x + c.
struct InputGradientCoefficients {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* c = nullptr;
};
void input_gradient(const GradientRows<float>& rows, float* dx, RowTiling tiling,
                    const float* scale, const float* offset,
                    InputGradientCoefficients coefficients);
void input_gradient(const GradientRows<core::BFloat16>& rows, core::BFloat16* dx, RowTiling tiling,
                    const float* scale, const float* offset,
                    InputGradientCoefficients coefficients);

/// to += from.
void add_into(const float* from, float* to, std::int64_t count);
void add_into(const core::BFloat16* from, core::BFloat16* to, std::int64_t count);

}  // namespace lockstep::backend::cpu
