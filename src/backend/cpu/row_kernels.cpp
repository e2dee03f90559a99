#include "row_kernels.hpp"

#include <algorithm>

#include "vectors.hpp"

namespace lockstep::backend::cpu {

RowTiling tile_rows(const FeatureMap& map) {
  constexpr std::int64_t preferred_width = 128;
  const std::int64_t pixels = map.shape.pixels();
  std::int64_t repeat = 1;
  for (std::int64_t divisor = 1; divisor <= pixels && divisor * map.lanes() <= preferred_width;
       ++divisor) {
    if (pixels % divisor == 0) repeat = divisor;
  }
  return {pixels / repeat, repeat * map.lanes(), repeat};
}

using core::BFloat16;

// Each kernel is one inlined template; the functions at the end instantiate it once per element
// type and instruction set (target_clones: the instruction set is selected at load time). Rows are
// processed in chunks that stay in the L1 cache, with one simple loop per computation, because
// compilers vectorise such loops reliably. Each kernel reads and writes the maps in memory once,
// which determines its time.

namespace {

constexpr std::int64_t chunk = 128;

/// Prefetch distance. The hardware prefetcher does not cross page boundaries. The kernels prefetch
/// what is usually not in a cache; in `input_gradient`, whose maps `gradient_sums` has read before,
/// prefetching made the step slower.
constexpr std::int64_t prefetch_bytes = 2048;

/// Calls work(position in the plane, position in the row, count) for each chunk of the plane.
template <class Work>
LOCKSTEP_INLINE void for_each_chunk(RowTiling tiling, Work&& work) {
  for (std::int64_t row = 0; row < tiling.rows; ++row) {
    for (std::int64_t column = 0; column < tiling.width; column += chunk) {
      work(row * tiling.width + column, column, std::min(chunk, tiling.width - column));
    }
  }
}

/// Fetches the elements that are `prefetch_bytes` behind those from `at` on, if they belong to the
/// plane.
template <class T>
LOCKSTEP_INLINE void prefetch(const T* plane, RowTiling tiling, std::int64_t at,
                              std::int64_t count) {
  constexpr auto elements = [](std::int64_t bytes) { return bytes / std::int64_t{sizeof(T)}; };
  const std::int64_t first = at + elements(prefetch_bytes);
  if (first + count > tiling.rows * tiling.width) return;
  for (std::int64_t i = 0; i < count; i += elements(64)) __builtin_prefetch(plane + first + i);
}

template <class T>
LOCKSTEP_INLINE void accumulate_rows(const T* x, RowTiling tiling, const float* shift, float* sum,
                                     float* square) {
  for_each_chunk(tiling, [&](std::int64_t at, std::int64_t column, std::int64_t count) {
    prefetch(x, tiling, at, count);
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = load(x[at + i]) - shift[column + i];
      sum[column + i] += value;
      square[column + i] += value * value;
    }
  });
}

template <class T>
LOCKSTEP_INLINE void normalise_rows(const NormaliseRows<T>& rows, RowTiling tiling,
                                    const float* scale, const float* offset) {
  const float floor = rows.activation == Activation::relu ? 0.0f : -3.4028235e38f;
  for_each_chunk(tiling, [&](std::int64_t at, std::int64_t column, std::int64_t count) {
    const T* x = rows.x + at;
    T* y = rows.y + at;
    const float* a = scale + column;
    const float* b = offset + column;
    prefetch(rows.x, tiling, at, count);
    if (rows.residual != nullptr) {
      const T* residual = rows.residual + at;
      prefetch(rows.residual, tiling, at, count);
      for (std::int64_t i = 0; i < count; ++i) {
        const float value = a[i] * load(x[i]) + b[i] + load(residual[i]);
        store(value < floor ? floor : value, y[i]);
      }
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        const float value = a[i] * load(x[i]) + b[i];
        store(value < floor ? floor : value, y[i]);
      }
    }
  });
}

/// Computes one chunk of g.
template <class T>
LOCKSTEP_INLINE void masked_gradient(const GradientRows<T>& rows, std::int64_t at,
                                     const float* scale, const float* offset, std::int64_t count,
                                     float* g) {
  const T* dy = rows.dy + at;
  for (std::int64_t i = 0; i < count; ++i) g[i] = load(dy[i]);
  if (rows.dy2 != nullptr) {
    const T* dy2 = rows.dy2 + at;
    for (std::int64_t i = 0; i < count; ++i) g[i] += load(dy2[i]);
  }
  if (rows.mask == Mask::affine) {
    const T* x = rows.x + at;
    for (std::int64_t i = 0; i < count; ++i)
      g[i] = scale[i] * load(x[i]) + offset[i] > 0 ? g[i] : 0.0f;
  } else if (rows.mask == Mask::output) {
    const T* y = rows.y + at;
    for (std::int64_t i = 0; i < count; ++i) g[i] = load(y[i]) > 0 ? g[i] : 0.0f;
  }
}

template <class T>
LOCKSTEP_INLINE void gradient_sum_rows(const GradientRows<T>& rows, RowTiling tiling,
                                       const float* scale, const float* offset, const float* center,
                                       float* sum, float* product) {
  for_each_chunk(tiling, [&](std::int64_t at, std::int64_t column, std::int64_t count) {
    float g[chunk];
    prefetch(rows.dy, tiling, at, count);
    prefetch(rows.x, tiling, at, count);
    if (rows.dy2 != nullptr) prefetch(rows.dy2, tiling, at, count);
    if (rows.mask == Mask::output) prefetch(rows.y, tiling, at, count);
    masked_gradient(rows, at, scale + column, offset + column, count, g);
    if (rows.masked != nullptr) {
      T* masked = rows.masked + at;
      for (std::int64_t i = 0; i < count; ++i) store(g[i], masked[i]);
    }
    const T* x = rows.x + at;
    for (std::int64_t i = 0; i < count; ++i) {
      sum[column + i] += g[i];
      product[column + i] += g[i] * (load(x[i]) - center[column + i]);
    }
  });
}

template <class T>
LOCKSTEP_INLINE void input_gradient_rows(const GradientRows<T>& rows, T* dx, RowTiling tiling,
                                         const float* scale, const float* offset,
                                         InputGradientCoefficients coefficients) {
  for_each_chunk(tiling, [&](std::int64_t at, std::int64_t column, std::int64_t count) {
    float g[chunk];
    masked_gradient(rows, at, scale + column, offset + column, count, g);
    const T* x = rows.x + at;
    const float* a = coefficients.a + column;
    const float* b = coefficients.b + column;
    const float* c = coefficients.c + column;
    for (std::int64_t i = 0; i < count; ++i)
      store(a[i] * g[i] + b[i] * load(x[i]) + c[i], dx[at + i]);
  });
}

template <class T>
LOCKSTEP_INLINE void add_rows(const T* from, T* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) store(load(to[i]) + load(from[i]), to[i]);
}

}  // namespace

LOCKSTEP_CLONES void accumulate(const float* x, RowTiling tiling, const float* shift, float* sum,
                                float* square) {
  accumulate_rows(x, tiling, shift, sum, square);
}
LOCKSTEP_CLONES void accumulate(const BFloat16* x, RowTiling tiling, const float* shift, float* sum,
                                float* square) {
  accumulate_rows(x, tiling, shift, sum, square);
}

LOCKSTEP_CLONES void normalise(const NormaliseRows<float>& rows, RowTiling tiling,
                               const float* scale, const float* offset) {
  normalise_rows(rows, tiling, scale, offset);
}
LOCKSTEP_CLONES void normalise(const NormaliseRows<BFloat16>& rows, RowTiling tiling,
                               const float* scale, const float* offset) {
  normalise_rows(rows, tiling, scale, offset);
}

LOCKSTEP_CLONES void gradient_sums(const GradientRows<float>& rows, RowTiling tiling,
                                   const float* scale, const float* offset, const float* center,
                                   float* sum, float* product) {
  gradient_sum_rows(rows, tiling, scale, offset, center, sum, product);
}
LOCKSTEP_CLONES void gradient_sums(const GradientRows<BFloat16>& rows, RowTiling tiling,
                                   const float* scale, const float* offset, const float* center,
                                   float* sum, float* product) {
  gradient_sum_rows(rows, tiling, scale, offset, center, sum, product);
}

LOCKSTEP_CLONES void input_gradient(const GradientRows<float>& rows, float* dx, RowTiling tiling,
                                    const float* scale, const float* offset,
                                    InputGradientCoefficients coefficients) {
  input_gradient_rows(rows, dx, tiling, scale, offset, coefficients);
}
LOCKSTEP_CLONES void input_gradient(const GradientRows<BFloat16>& rows, BFloat16* dx,
                                    RowTiling tiling, const float* scale, const float* offset,
                                    InputGradientCoefficients coefficients) {
  input_gradient_rows(rows, dx, tiling, scale, offset, coefficients);
}

LOCKSTEP_CLONES void add_into(const float* from, float* to, std::int64_t count) {
  add_rows(from, to, count);
}
LOCKSTEP_CLONES void add_into(const BFloat16* from, BFloat16* to, std::int64_t count) {
  add_rows(from, to, count);
}

}  // namespace lockstep::backend::cpu
