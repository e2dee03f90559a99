// SPDX-License-Identifier: BSD-3-Clause
// Kernels that run on every processor, slowly. Tests compare those of an instruction set with them.

#include <cmath>

#include "int16_kernels.hpp"
#include "int16_matrices.hpp"
#include "tiles.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;
using namespace int16;

namespace {

/// One value, for the transforms of vectors.
using Value = Vector<1>;

std::int16_t rounded(float value) {
  return std::isfinite(value) ? static_cast<std::int16_t>(std::lrintf(value)) : std::int16_t{0};
}

/// Returns the position of the sum of a row of A and a column of B.
constexpr std::int64_t sum_of(std::int64_t row, std::int64_t column) {
  return (row / tile_rows * 2 + column / tile_rows) * tile_floats + row % tile_rows * tile_rows +
         column % tile_rows;
}
/// Returns the position in a weight cell, or in an interleaved cell.
constexpr std::int64_t pair_position(std::int64_t row, std::int64_t column) {
  return column / 16 * tile_halves + row / 2 * 32 + column % 16 * 2 + row % 2;
}

/// Computes T X Tt: `get(row, column)` returns the elements of X, `put(row, column, value)`
/// receives the result.
template <class T, class Get, class Put>
void transform(Get&& get, Put&& put) {
  Value half[T::out][T::in];
  for (int column = 0; column < T::in; ++column) {
    Value x[T::in], y[T::out];
    for (int row = 0; row < T::in; ++row) x[row] = Value{get(row, column)};
    T::apply(x, y);
    for (int row = 0; row < T::out; ++row) half[row][column] = y[row];
  }
  for (int row = 0; row < T::out; ++row) {
    Value y[T::out];
    T::apply(half[row], y);
    for (int column = 0; column < T::out; ++column) put(row, column, y[column][0]);
  }
}

/// Returns the inverse norm of the coefficients of a frequency.
template <class Classes>
float inverse_norm_of(const RowNorms& norms, const Classes& classes, int row, int column) {
  return inverse_norm(norms, classes[static_cast<std::size_t>(row)],
                      classes[static_cast<std::size_t>(column)]);
}

/// Returns the sum of the products of cells [cells.first, cells.last). `a_position(row, k)`: in the
/// cells of A.
template <class Position>
std::int32_t sum_of_products(const Int16Products& products, Range cells, std::int64_t row,
                             std::int64_t column, Position&& a_position) {
  std::int32_t sum = 0;
  for (std::int64_t i = cells.first; i < cells.last; ++i) {
    const std::int16_t* const a = products.a + i * products.a_stride;
    const std::int16_t* const b = products.b + i * products.b_stride;
    for (std::int64_t k = 0; k < products.depth; ++k)
      sum += std::int32_t{a[a_position(row, k)]} * b[pair_position(k, column)];
  }
  return sum;
}

template <class Scheme>
class PortableKernels final : public Int16Kernels {
 public:
  std::string_view instructions() const override { return "portable"; }
  Sizes sizes() const override { return scheme_sizes<Scheme>; }

  void add_squares_of_images(PatchSpan cells, std::int64_t images, float* squares) const override {
    for (const BFloat16* const cell : cells) {
      for (std::int64_t i = 0; i < images * cell_channels; ++i) {
        const float value = core::to_float(cell[i]);
        squares[i / cell_channels] += value * value;
      }
    }
  }

  void add_squares_of_channels(PatchSpan cells, std::int64_t images,
                               float* squares) const override {
    for (const BFloat16* const cell : cells) {
      for (std::int64_t i = 0; i < images * cell_channels; ++i) {
        const float value = core::to_float(cell[i]);
        squares[i % cell_channels] += value * value;
      }
    }
  }

  void transform_input(PatchSpan patch, Range values, const float* scales,
                       std::int64_t scale_stride, std::int16_t* to,
                       std::int64_t stride) const override {
    transform_cells<typename Scheme::Input>(patch, input_norms, values, scales, scale_stride, to,
                                            stride);
  }

  void transform_gradient(PatchSpan patch, Range values, const float* scales, std::int16_t* to,
                          std::int64_t stride) const override {
    transform_cells<typename Scheme::Gradient>(patch, gradient_norms, values, scales, 0, to,
                                               stride);
  }

  void transform_weights(const WeightMatrix& weights, std::int64_t row_block,
                         std::int64_t column_block, bool is_rotated, const float* scales,
                         std::int16_t* to, std::int64_t stride) const override {
    using Weights = typename Scheme::Weights;
    for (std::int64_t i = 0; i < cell_channels; ++i) {
      for (std::int64_t j = 0; j < cell_channels; ++j) {
        const std::int64_t row = row_block * cell_channels + i;
        const std::int64_t column = column_block * cell_channels + j;
        const bool exists = row < weights.rows && column < weights.columns;
        const float* const kernel =
            weights.flat + row * weights.row_stride + column * weights.column_stride;
        transform<Weights>(
            [&](int y, int x) {
              const int tap = y * 3 + x;
              return exists ? kernel[is_rotated ? 8 - tap : tap] : 0.0F;
            },
            [&](int y, int x, float value) {
              const float norm =
                  inverse_norm_of(Scheme::weight_norms, Scheme::weight_classes, y, x);
              to[(y * Weights::out + x) * stride + pair_position(i, j)] =
                  rounded(value * (scales[j] * norm));
            });
      }
    }
  }

  void multiply(const Int16Products& products, float* sums) const override {
    for (std::int64_t row = 0; row < products.rows; ++row) {
      for (std::int64_t column = 0; column < cell_channels; ++column) {
        float sum = 0;
        for (std::int64_t first = 0; first < products.count; first += chunk_blocks) {
          const Range chunk{first, std::min(first + chunk_blocks, products.count)};
          sum += static_cast<float>(sum_of_products(
              products, chunk, row, column,
              [](std::int64_t image, std::int64_t k) { return image * cell_channels + k; }));
        }
        sums[sum_of(row, column)] = sum;
      }
    }
  }

  void multiply_scaled(const Int16Products& products, const float* row_factors,
                       const float* column_factors, bool adds, float* sums) const override {
    for (std::int64_t row = 0; row < products.rows; ++row) {
      for (std::int64_t column = 0; column < cell_channels; ++column) {
        const auto sum = static_cast<float>(sum_of_products(
            products, {0, products.count}, row, column,
            [](std::int64_t channel, std::int64_t k) { return pair_position(k, channel); }));
        const float scaled = sum * row_factors[row] * column_factors[column];
        float& to = sums[sum_of(row, column)];
        to = adds ? to + scaled : scaled;
      }
    }
  }

  void transform_output(const float* from, std::int64_t stride, const float* image_factors,
                        const float* channel_factors, const OutputTile& tile) const override {
    using Output = typename Scheme::Output;
    const MapRow& row = tile.first_row;
    for (std::int64_t image = 0; image < row.images; ++image) {
      std::array<std::array<float, 32>, std::size_t{Output::out * Output::out}> outputs{};
      for (std::int64_t channel = 0; channel < cell_channels; ++channel) {
        const float* const at = from + sum_of(image, channel);
        const float factor = image_factors[image] * channel_factors[channel] * Output::by.factor;
        const float bias = tile.bias != nullptr ? tile.bias[channel] : 0.0F;
        transform<Output>([&](int y, int x) { return at[(y * Output::in + x) * stride]; },
                          [&](int y, int x, float value) {
                            outputs[static_cast<std::size_t>(y * Output::out + x)]
                                   [static_cast<std::size_t>(channel)] =
                                       core::to_float(core::to_bfloat16(value * factor + bias));
                          });
      }
      for (std::int64_t y = 0; y < tile.rows; ++y) {
        for (std::int64_t x = 0; x < row.pixels; ++x) {
          const auto& values = outputs[static_cast<std::size_t>(y * Output::out + x)];
          BFloat16* const to =
              row.first + y * tile.row_stride + x * row.pixel_stride + image * cell_channels;
          for (std::int64_t channel = 0; channel < cell_channels; ++channel)
            to[channel] = core::to_bfloat16(values[static_cast<std::size_t>(channel)]);
          if (tile.statistics != nullptr) tile.statistics->add(values);
        }
      }
    }
  }

  void transform_weight_gradient(const float* from, std::int64_t stride, std::int64_t channels,
                                 float* to) const override {
    using WeightGradient = typename Scheme::WeightGradient;
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      transform<WeightGradient>(
          [&](int y, int x) { return from[(y * WeightGradient::in + x) * stride + channel]; },
          [&](int y, int x, float value) {
            to[channel * 9 + y * 3 + x] = value * WeightGradient::by.factor;
          });
    }
  }

 private:
  template <class Transform>
  static void transform_cells(PatchSpan patch, const RowNorms& norms, Range values,
                              const float* scales, std::int64_t scale_stride, std::int16_t* to,
                              std::int64_t stride) {
    for (std::int64_t i = values.first; i < values.last; ++i) {
      const float scale = scales[(i - values.first) / 32 * scale_stride + i % 32 / 2];
      transform<Transform>(
          [&](int row, int column) {
            return core::to_float(patch[static_cast<std::size_t>(row * Transform::in + column)][i]);
          },
          [&](int row, int column, float value) {
            const float norm = inverse_norm_of(norms, Scheme::classes, row, column);
            to[(row * Transform::out + column) * stride + i] = rounded(value * (scale * norm));
          });
    }
  }
};

}  // namespace

const Int16Kernels& portable_int16_kernels(Int16Scheme scheme) {
  return kernels_of<PortableKernels>(scheme);
}

}  // namespace lockstep::backend::cpu::cells
