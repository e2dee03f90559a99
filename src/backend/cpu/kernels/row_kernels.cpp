// SPDX-License-Identifier: BSD-3-Clause
#include "row_kernels.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "lockstep/core/error.hpp"
#include "vectors.hpp"

namespace lockstep::backend::cpu {

using core::BFloat16;

// Each kernel is a struct whose function `run` processes some rows of a column of W elements. It
// holds coefficients and sums in registers and reads and writes the maps in memory once, which
// determines its time. The functions at the end instantiate each kernel once per element type and
// instruction set.

namespace {

/// Elements per column. If the width of a row is not a multiple of it, each remaining element is a
/// column.
constexpr int vector_width = 16;

/// Elements whose columns are processed one after the other: few enough that they stay in the L1
/// cache.
constexpr std::int64_t elements_together = 2048;

/// Fetches data that will be read soon; at the end of a plane they usually belong to the next
/// plane. The kernels prefetch what is usually not in a cache; in `input_gradient`, whose maps
/// `gradient_sums` has read before, prefetching made the step slower.
LOCKSTEP_INLINE void prefetch(const void* data) { prefetch_ahead(data, 2048); }

/// The elements at begin, begin + stride, ... < end of a plane, which are those from `column` on in
/// some rows.
struct Column {
  std::int64_t column, begin, end, stride;
};

template <class Kernel>
LOCKSTEP_INLINE void for_each_column(RowTiling tiling, const Kernel& kernel) {
  const std::int64_t width = tiling.width, stride = tiling.stride;
  const std::int64_t rows = std::max<std::int64_t>(1, elements_together / width);
  for (std::int64_t row = 0; row < tiling.rows; row += rows) {
    const std::int64_t begin = row * stride;
    const std::int64_t end = std::min(row + rows, tiling.rows) * stride;
    std::int64_t column = 0;
    for (; column + vector_width <= width; column += vector_width)
      kernel.template run<vector_width>({column, begin + column, end, stride});
    for (; column < width; ++column) kernel.template run<1>({column, begin + column, end, stride});
  }
}

template <class T>
struct Accumulation {
  const T* x;
  const float* shift;
  float* sum;
  float* square;

  template <int W>
  LOCKSTEP_INLINE void run(Column c) const {
    const Vector<W> shifts = load<W>(shift + c.column);
    Vector<W> sums = load<W>(sum + c.column);
    Vector<W> squares = load<W>(square + c.column);
    for (std::int64_t at = c.begin; at < c.end; at += c.stride) {
      prefetch(x + at);
      const Vector<W> value = load<W>(x + at) - shifts;
      sums += value;
      squares += value * value;
    }
    store<W>(sums, sum + c.column);
    store<W>(squares, square + c.column);
  }
};

template <class T>
struct Normalisation {
  NormaliseRows<T> rows;

  template <int W>
  LOCKSTEP_INLINE void run(Column c) const {
    const Vector<W> scales = load<W>(rows.scale + c.column);
    const Vector<W> offsets = load<W>(rows.offset + c.column);
    const Vector<W> floor =
        Vector<W>{} +
        (rows.activation == Activation::relu ? 0.0f : std::numeric_limits<float>::lowest());
    for (std::int64_t at = c.begin; at < c.end; at += c.stride) {
      prefetch(rows.x + at);
      Vector<W> value = scales * load<W>(rows.x + at) + offsets;
      if (rows.residual != nullptr) {
        prefetch(rows.residual + at);
        value += load<W>(rows.residual + at);
      }
      store<W>(value < floor ? floor : value, rows.y + at);
    }
  }
};

/// Computes one vector of g.
template <int W, class T>
LOCKSTEP_INLINE Vector<W> masked_gradient(const GradientRows<T>& rows, std::int64_t at,
                                          const Vector<W>& x, const Vector<W>& scale,
                                          const Vector<W>& offset) {
  Vector<W> g = load<W>(rows.dy + at);
  if (rows.dy2 != nullptr) g += load<W>(rows.dy2 + at);
  if (rows.mask == Mask::affine) return scale * x + offset > 0 ? g : Vector<W>{};
  if (rows.mask == Mask::output) return load<W>(rows.y + at) > 0 ? g : Vector<W>{};
  return g;
}

template <class T>
struct GradientSums {
  GradientRows<T> rows;
  const float* center;
  float* sum;
  float* product;

  template <int W>
  LOCKSTEP_INLINE void run(Column c) const {
    const Vector<W> scales = load<W>(rows.scale + c.column);
    const Vector<W> offsets = load<W>(rows.offset + c.column);
    const Vector<W> centers = load<W>(center + c.column);
    Vector<W> sums = load<W>(sum + c.column);
    Vector<W> products = load<W>(product + c.column);
    for (std::int64_t at = c.begin; at < c.end; at += c.stride) {
      prefetch(rows.dy + at);
      prefetch(rows.x + at);
      if (rows.dy2 != nullptr) prefetch(rows.dy2 + at);
      if (rows.mask == Mask::output) prefetch(rows.y + at);
      const Vector<W> x = load<W>(rows.x + at);
      const Vector<W> g = masked_gradient<W>(rows, at, x, scales, offsets);
      if (rows.masked != nullptr) store<W>(g, rows.masked + at);
      sums += g;
      products += g * (x - centers);
    }
    store<W>(sums, sum + c.column);
    store<W>(products, product + c.column);
  }
};

template <class T>
struct InputGradient {
  GradientRows<T> rows;
  T* dx;
  InputGradientCoefficients coefficients;

  template <int W>
  LOCKSTEP_INLINE void run(Column c) const {
    const Vector<W> scales = load<W>(rows.scale + c.column);
    const Vector<W> offsets = load<W>(rows.offset + c.column);
    const Vector<W> as = load<W>(coefficients.a + c.column);
    const Vector<W> bs = load<W>(coefficients.b + c.column);
    const Vector<W> cs = load<W>(coefficients.c + c.column);
    for (std::int64_t at = c.begin; at < c.end; at += c.stride) {
      const Vector<W> x = load<W>(rows.x + at);
      const Vector<W> g = masked_gradient<W>(rows, at, x, scales, offsets);
      store<W>(as * g + bs * x + cs, dx + at);
    }
  }
};

template <class T>
LOCKSTEP_INLINE void add_rows(const T* from, T* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) store(load(to[i]) + load(from[i]), to[i]);
}

}  // namespace

RowTiling tile_rows(const FeatureMap& map) {
  constexpr std::int64_t longest = 128;
  const std::int64_t lanes = map.lanes();
  // Groups of all lanes: pixels of one or more images. In maps with blocks of images, a row is one
  // group, so that planes with fewer images consist of whole rows.
  const std::int64_t groups = map.shape.pixels() * map.images_per_block();
  std::int64_t repeat = 1;
  for (std::int64_t divisor = 1; divisor <= groups && divisor * lanes <= longest; ++divisor) {
    if (groups % divisor != 0) continue;
    repeat = divisor;
    if (divisor * lanes % vector_width == 0) break;
  }
  core::check(map.images_per_block() == 1 || repeat == 1, "a row has one image of a block");
  return {groups / repeat, repeat * lanes, repeat, repeat * lanes};
}

std::int64_t rows_of_plane(const RowTiling& tiling, const FeatureMap& map,
                           std::int64_t image_block) {
  return map.plane(image_block) / tiling.width;
}

LOCKSTEP_CLONES void accumulate(const float* x, RowTiling tiling, const float* shift, float* sum,
                                float* square) {
  for_each_column(tiling, Accumulation<float>{x, shift, sum, square});
}
LOCKSTEP_CLONES void accumulate(const BFloat16* x, RowTiling tiling, const float* shift, float* sum,
                                float* square) {
  for_each_column(tiling, Accumulation<BFloat16>{x, shift, sum, square});
}

LOCKSTEP_CLONES void normalise(const NormaliseRows<float>& rows, RowTiling tiling) {
  for_each_column(tiling, Normalisation<float>{rows});
}
LOCKSTEP_CLONES void normalise(const NormaliseRows<BFloat16>& rows, RowTiling tiling) {
  for_each_column(tiling, Normalisation<BFloat16>{rows});
}

LOCKSTEP_CLONES void gradient_sums(const GradientRows<float>& rows, RowTiling tiling,
                                   const float* center, float* sum, float* product) {
  for_each_column(tiling, GradientSums<float>{rows, center, sum, product});
}
LOCKSTEP_CLONES void gradient_sums(const GradientRows<BFloat16>& rows, RowTiling tiling,
                                   const float* center, float* sum, float* product) {
  for_each_column(tiling, GradientSums<BFloat16>{rows, center, sum, product});
}

LOCKSTEP_CLONES void input_gradient(const GradientRows<float>& rows, float* dx, RowTiling tiling,
                                    InputGradientCoefficients coefficients) {
  for_each_column(tiling, InputGradient<float>{rows, dx, coefficients});
}
LOCKSTEP_CLONES void input_gradient(const GradientRows<BFloat16>& rows, BFloat16* dx,
                                    RowTiling tiling, InputGradientCoefficients coefficients) {
  for_each_column(tiling, InputGradient<BFloat16>{rows, dx, coefficients});
}

LOCKSTEP_CLONES void add_into(const float* from, float* to, std::int64_t count) {
  add_rows(from, to, count);
}
LOCKSTEP_CLONES void add_into(const BFloat16* from, BFloat16* to, std::int64_t count) {
  add_rows(from, to, count);
}

}  // namespace lockstep::backend::cpu
