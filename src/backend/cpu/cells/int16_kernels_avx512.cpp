// SPDX-License-Identifier: BSD-3-Clause
// Kernels with the instruction VPDPWSSD of AVX512-VNNI, which adds two products of 16-bit integers
// to each of 16 32-bit sums. As in dot_kernels.cpp, the products of a cell are computed for 8 of
// its 32 rows at a time.

#include <array>
#include <cstring>

#include "int16_kernels.hpp"
#include "int16_transforms_avx512.hpp"
#include "tiles.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;
using namespace int16;

namespace {

/// Rows of sums that are computed at a time.
constexpr int group = 8;

/// Elements of squares of `Size` x `Size` cells: 32 values of each cell.
template <int Size>
struct CellValues {
  /// Lines that are fetched ahead; the hardware prefetcher does not recognise the pattern.
  static constexpr std::int64_t ahead = 4 * NextCells::line;

  LOCKSTEP_INLINE_VNNI FloatPair operator()(int row, int column) const {
    const BFloat16* const from = cells[row * Size + column] + offset;
    __builtin_prefetch(from + ahead, 0, 2);
    const __m512i both = cells::load(from);
    return {even_values(both), odd_values(both)};
  }
  const BFloat16* const* cells;
  std::int64_t offset;
};

template <class T, const auto& classes>
LOCKSTEP_VNNI void transform_cells(PatchSpan patch, const RowNorms& norms, Range values,
                                   const float* scales, std::int64_t scale_stride, std::int16_t* to,
                                   std::int64_t stride) {
  for (std::int64_t i = values.first; i < values.last; i += 32, scales += scale_stride)
    transform_pairs_of_squares<T, classes>(CellValues<T::in>{patch.data(), i},
                                           LaneScales(scales, norms), to + i, stride);
}

/// Elements of the 3x3 kernels of 16 columns of two rows of a matrix of weights.
struct KernelValues {
  LOCKSTEP_INLINE_VNNI FloatPair operator()(int row, int column) const {
    const auto tap = static_cast<std::size_t>(row * 3 + column);
    const std::size_t at = is_rotated ? taps - 1 - tap : tap;
    return {even[at], odd[at]};
  }
  std::array<Floats, taps> even, odd;
  bool is_rotated;
};

/// Returns the sum of all lanes of each of 16 vectors.
LOCKSTEP_VNNI __m512 sums_of_lanes(__m512i (&vectors)[16]) {
  transpose_pairs(vectors);
  __m512 sum = _mm512_castsi512_ps(vectors[0]);
#pragma GCC unroll 16
  for (int i = 1; i < 16; ++i) sum = _mm512_add_ps(sum, _mm512_castsi512_ps(vectors[i]));
  return sum;
}

/// Adds up the products of the cells [cells.first, cells.last), for `group` rows from `first` on.
/// `is_interleaved`: the cells of A are.
template <bool is_interleaved>
LOCKSTEP_INLINE_VNNI void multiply_rows(const Int16Products& products, Range cells,
                                        std::int64_t first, __m512i (&sum)[group][2]) {
  constexpr std::int64_t row_stride = is_interleaved ? 2 : 32,
                         pair_stride = is_interleaved ? 32 : 2;
  const std::int64_t first_row =
      is_interleaved ? first / 16 * tile_halves + first % 16 * row_stride : first * row_stride;
  const std::int64_t pairs = ceil_div(products.depth, 2);
  const std::int16_t* a = products.a + cells.first * products.a_stride + first_row;
  const std::int16_t* b = products.b + cells.first * products.b_stride;
#pragma GCC unroll 8
  for (auto& row : sum) row[0] = row[1] = _mm512_setzero_si512();
  for (std::int64_t i = cells.first; i < cells.last;
       ++i, a += products.a_stride, b += products.b_stride) {
#pragma GCC unroll 2
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const __m512i left = load(b + pair * 32), right = load(b + tile_halves + pair * 32);
#pragma GCC unroll 8
      for (int row = 0; row < group; ++row) {
        int values;
        std::memcpy(&values, a + row * row_stride + pair * pair_stride, sizeof(values));
        const __m512i factor = _mm512_set1_epi32(values);
        sum[row][0] = _mm512_dpwssd_epi32(sum[row][0], factor, left);
        sum[row][1] = _mm512_dpwssd_epi32(sum[row][1], factor, right);
      }
    }
  }
}

/// Returns the position of row `row` of 32 rows in the four tiles of a cell's sums.
constexpr std::int64_t sums_of_row(std::int64_t row) {
  return row / tile_rows * 2 * tile_floats + row % tile_rows * tile_rows;
}

template <class Scheme>
class VnniKernels final : public Int16Kernels {
 public:
  std::string_view instructions() const override { return "avx512-vnni"; }
  Sizes sizes() const override { return scheme_sizes<Scheme>; }

  LOCKSTEP_VNNI void add_squares_of_images(PatchSpan cells, std::int64_t images,
                                           float* squares) const override {
    for (std::int64_t first = 0; first < images; first += 16) {
      __m512i sum[16];
#pragma GCC unroll 16
      for (__m512i& of_image : sum) of_image = _mm512_setzero_si512();
      for (const BFloat16* const cell : cells) {
        if (cell == zero_cell) continue;
#pragma GCC unroll 16
        for (std::int64_t i = 0; i < 16; ++i) {
          const auto values =
              reinterpret_cast<__m512bh>(cells::load(cell + (first + i) * cell_channels));
          sum[i] =
              _mm512_castps_si512(_mm512_dpbf16_ps(_mm512_castsi512_ps(sum[i]), values, values));
        }
      }
      const __mmask16 present = first_floats(images - first);
      const __m512 before = _mm512_maskz_loadu_ps(present, squares + first);
      _mm512_mask_storeu_ps(squares + first, present, sums_of_lanes(sum) + before);
    }
  }

  LOCKSTEP_VNNI void add_squares_of_channels(PatchSpan cells, std::int64_t images,
                                             float* squares) const override {
    // Several sums of each channel, so that the additions do not wait for each other.
    constexpr std::int64_t sums = 8;
    __m512 even[sums] = {}, odd[sums] = {};
    for (const BFloat16* const cell : cells) {
      if (cell == zero_cell) continue;
      for (std::int64_t first = 0; first < images; first += sums) {
        const std::int64_t present = images - first;
#pragma GCC unroll 8
        for (std::int64_t i = 0; i < sums; ++i) {
          const __m512i values = _mm512_maskz_loadu_epi32(i < present ? 0xffffU : 0U,
                                                          cell + (first + i) * cell_channels);
          const __m512 even_part = even_values(values), odd_part = odd_values(values);
          even[i] = _mm512_fmadd_ps(even_part, even_part, even[i]);
          odd[i] = _mm512_fmadd_ps(odd_part, odd_part, odd[i]);
        }
      }
    }
#pragma GCC unroll 8
    for (std::int64_t i = 1; i < sums; ++i) {
      even[0] += even[i];
      odd[0] += odd[i];
    }
    alignas(64) float even_sums[16], odd_sums[16];
    _mm512_store_ps(even_sums, even[0]);
    _mm512_store_ps(odd_sums, odd[0]);
    for (std::int64_t pair = 0; pair < cell_channels / 2; ++pair) {
      squares[2 * pair] += even_sums[pair];
      squares[2 * pair + 1] += odd_sums[pair];
    }
  }

  void transform_input(PatchSpan patch, Range values, const float* scales,
                       std::int64_t scale_stride, std::int16_t* to,
                       std::int64_t stride) const override {
    transform_cells<typename Scheme::Input, Scheme::classes>(patch, input_norms, values, scales,
                                                             scale_stride, to, stride);
  }

  void transform_gradient(PatchSpan patch, Range values, const float* scales, std::int16_t* to,
                          std::int64_t stride) const override {
    transform_cells<typename Scheme::Gradient, Scheme::classes>(patch, gradient_norms, values,
                                                                scales, 0, to, stride);
  }

  LOCKSTEP_VNNI void transform_weights(const WeightMatrix& weights, std::int64_t row_block,
                                       std::int64_t column_block, bool is_rotated,
                                       const float* scales, std::int16_t* to,
                                       std::int64_t stride) const override {
    for (std::int64_t half = 0; half < 2; ++half) {
      const std::int64_t column = column_block * 32 + half * 16;
      const LaneScales lane_scales(scales + half * 16, Scheme::weight_norms);
      for (std::int64_t pair = 0; pair < 16; ++pair, to += 32) {
        const std::int64_t row = row_block * 32 + 2 * pair;
        const float* const from =
            weights.flat + row * weights.row_stride + column * weights.column_stride;
        const std::int64_t columns = weights.columns - column;
        const KernelValues kernels{
            load_kernels(from, weights.column_stride, row < weights.rows ? columns : 0),
            load_kernels(from + weights.row_stride, weights.column_stride,
                         row + 1 < weights.rows ? columns : 0),
            is_rotated};
        transform_pairs_of_squares<typename Scheme::Weights, Scheme::weight_classes>(
            kernels, lane_scales, to, stride);
      }
    }
  }

  LOCKSTEP_VNNI void multiply(const Int16Products& products, float* sums) const override {
    for (std::int64_t first = 0; first < products.rows; first += group) {
      for (std::int64_t cell = 0; cell < products.count; cell += chunk_blocks) {
        __m512i sum[group][2];
        multiply_rows<false>(products, {cell, std::min(cell + chunk_blocks, products.count)}, first,
                             sum);
        float* to = sums + sums_of_row(first);
#pragma GCC unroll 8
        for (int row = 0; row < group; ++row, to += tile_rows) {
          const __m512 left = _mm512_cvtepi32_ps(sum[row][0]);
          const __m512 right = _mm512_cvtepi32_ps(sum[row][1]);
          _mm512_store_ps(to, cell == 0 ? left : left + _mm512_load_ps(to));
          _mm512_store_ps(to + tile_floats,
                          cell == 0 ? right : right + _mm512_load_ps(to + tile_floats));
        }
      }
    }
  }

  LOCKSTEP_VNNI void multiply_scaled(const Int16Products& products, const float* row_factors,
                                     const float* column_factors, bool adds,
                                     float* sums) const override {
    const __m512 left = _mm512_loadu_ps(column_factors);
    const __m512 right = _mm512_loadu_ps(column_factors + 16);
    for (std::int64_t first = 0; first < products.rows; first += group) {
      __m512i sum[group][2];
      multiply_rows<true>(products, {0, products.count}, first, sum);
      float* to = sums + sums_of_row(first);
#pragma GCC unroll 8
      for (int row = 0; row < group; ++row, to += tile_rows) {
        const __m512 factor = _mm512_set1_ps(row_factors[first + row]);
        const __m512 one = _mm512_cvtepi32_ps(sum[row][0]) * factor;
        const __m512 other = _mm512_cvtepi32_ps(sum[row][1]) * factor;
        const __m512 zero = _mm512_setzero_ps();
        _mm512_store_ps(to, _mm512_fmadd_ps(one, left, adds ? _mm512_load_ps(to) : zero));
        _mm512_store_ps(
            to + tile_floats,
            _mm512_fmadd_ps(other, right, adds ? _mm512_load_ps(to + tile_floats) : zero));
      }
    }
  }

  LOCKSTEP_VNNI void transform_output(const float* from, std::int64_t stride,
                                      const float* image_factors, const float* channel_factors,
                                      const OutputTile& tile) const override {
    using Output = typename Scheme::Output;
    const MapRow& row = tile.first_row;
    StatisticsRegisters registers(tile.statistics);
    const __m512 factors[2] = {_mm512_loadu_ps(channel_factors),
                               _mm512_loadu_ps(channel_factors + 16)};
    __m512 bias[2] = {};
    if (tile.bias != nullptr) {
      bias[0] = _mm512_loadu_ps(tile.bias);
      bias[1] = _mm512_loadu_ps(tile.bias + lanes);
    }
    for (std::int64_t image = 0; image < row.images; ++image) {
      const __m512 image_factor = _mm512_set1_ps(image_factors[image] * Output::by.factor);
      FloatSquare<Output::out> outputs[2];
#pragma GCC unroll 2
      for (std::int64_t half = 0; half < 2; ++half) {
        outputs[half] =
            transformed_square<Output>(from + sums_of_row(image) + half * tile_floats, stride);
      }
      const __m512 left = factors[0] * image_factor, right = factors[1] * image_factor;
      for (std::int64_t y = 0; y < tile.rows; ++y) {
        for (std::int64_t x = 0; x < row.pixels; ++x) {
          BFloat16* const to =
              row.first + image * cell_channels + y * tile.row_stride + x * row.pixel_stride;
          const auto pixel = static_cast<std::size_t>(y * Output::out + x);
          const __m512i values = narrowed(_mm512_fmadd_ps(outputs[0][pixel], left, bias[0]),
                                          _mm512_fmadd_ps(outputs[1][pixel], right, bias[1]));
          registers.add(values);
          if (tile.streams) {
            _mm512_stream_si512(reinterpret_cast<__m512i*>(to), values);
          } else {
            cells::store(to, values);
          }
        }
      }
    }
    registers.store();
  }

  LOCKSTEP_VNNI void transform_weight_gradient(const float* from, std::int64_t stride,
                                               std::int64_t channels, float* to) const override {
    using WeightGradient = typename Scheme::WeightGradient;
    FloatSquare<WeightGradient::out> kernels = transformed_square<WeightGradient>(from, stride);
    for (Floats& values : kernels) values *= WeightGradient::by.factor;
    store_kernels(kernels, channels, to);
  }
};

}  // namespace

const Int16Kernels& avx512_int16_kernels(Int16Scheme scheme) {
  return kernels_of<VnniKernels>(scheme);
}

}  // namespace lockstep::backend::cpu::cells
