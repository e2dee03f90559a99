// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels.hpp"
#include "winograd_tiles.hpp"

// Winograd's algorithm F(4x4, 3x3) on bfloat16 maps, with products of 16-bit integers. The
// transforms and points are those of winograd_kernels.hpp, and of
// winograd_strided_kernels.hpp for stride 2. With stride 1, 36 products ("frequencies") compute
// 16 outputs, where F(2x2, 3x3) needs 64. Transformed values that are rounded to bfloat16 would
// make F(4x4) three times as inexact as F(2x2) is. VPDPWSSD (AVX512-VNNI) multiplies pairs of
// 16-bit integers as fast as VDPBF16PS multiplies pairs of bfloat16 values, but they have 15 bits
// of precision where bfloat16 has 8.
//
// Scales. A sum of products is a dot product of two vectors, over channels (for maps) or over tiles
// and images (for the gradient of the weights). By the inequality of Cauchy and Schwarz, its
// magnitude is at most the product of the norms of both vectors (always Euclidean norms). A
// transformed value is a linear combination of the values of a patch, whose coefficients have the
// norm c = row_norm(i) * row_norm(j) for frequency (i, j). So by the same inequality, the norm of a
// vector of transformed values is at most c times the norm of its patches (`squared_norm_of_rows`
// has a second bound, and uses the lower one). Each vector is multiplied by 32000 / (c * norm of
// its patches), or by 61000 / (c * norm) in the case of weights, before it is rounded. Then no
// value is larger than an int16, and no sum is larger than an int32: neither can overflow, whatever
// the values are. The result is divided by both scales again. The factors c are part of the
// transforms of the results.
//
// The longer a vector, the smaller are its scaled values, and the coarser is their rounding. So
// sums of integers are added as float32 after `chunk_blocks` blocks of channels, or after
// `chunk_tiles` tiles.
//
// Vectors with a norm below 1e-15 count as zeros, because bfloat16 instructions read denormal
// squares as zero. If a value is infinite or NaN, or if the norm overflows float32 (1.8e19), all
// results that depend on it are infinite or NaN.

namespace lockstep::backend::cpu::cells {

/// The directions of convolutions with different transforms.
enum class Int16Scheme {
  unstrided,     ///< stride 1
  strided,       ///< stride 2, forward and backward weights
  strided_data,  ///< stride 2, backward data
};

/// The cells of the pixels of a patch, row by row. Cells of pixels outside the map are `zero_cell`.
using PatchSpan = std::span<const core::BFloat16* const>;

/// Blocks of channels, and tiles of 32 images, whose products are added as integers.
inline constexpr std::int64_t chunk_blocks = 4;
inline constexpr std::int64_t chunk_tiles = 4;

/// Products of two sequences of cells of integers, as `CellProducts`.
struct Int16Products {
  const std::int16_t* a = nullptr;
  const std::int16_t* b = nullptr;
  std::int64_t a_stride = 0, b_stride = 0;  ///< values from one cell to the next
  std::int64_t count = 0;
  std::int64_t rows = 32;   ///< of A; the sums of the others are undefined
  std::int64_t depth = 32;  ///< rows of B; the values of the others, and of the columns of A, are 0
};

/// Returns a bound of the squared norm of a vector, without the factor c. `squares`: for each row
/// of pixels of its patches, the sum of the squares of all values.
float squared_norm_of_rows(std::span<const float> squares);
/// Returns the same for the columns of one block of a matrix of weights, scaled so that weights may
/// have a larger norm; 0 for columns that do not exist. The norms are those of the largest chunk of
/// `chunk_blocks` blocks of rows.
std::array<float, cell_channels> squared_norms_of_columns(const WeightMatrix& weights,
                                                          std::int64_t column_block);

/// The scale of vectors of a norm, and its inverse. Both are 0 for vectors that count as zeros.
struct Int16Scale {
  explicit Int16Scale(float squared_norm);
  float scale, inverse;
};

/// Returns the larger value; NaN if one of them is.
inline float larger(float a, float b) { return a >= b || std::isnan(a) ? a : b; }

/// Arithmetic with integers, for one scheme. In all cells, frequency f is at `to` or `from` + f *
/// `stride`. `scales` are those of `Int16Scale`.
class Int16Kernels {
 public:
  virtual ~Int16Kernels() = default;

  virtual std::string_view instructions() const = 0;  ///< name shown to users

  struct Sizes {
    std::int64_t patch_size;    ///< pixels of the map that is read, in each dimension
    std::int64_t tile_size;     ///< pixels of the map that is written
    std::int64_t product_rows;  ///< frequencies of products, in each dimension
    std::int64_t weight_rows;   ///< frequencies of weights; the last belongs to all later products

    /// Returns the frequency of weights of the frequency of a product.
    std::int64_t weight_frequency(std::int64_t product) const {
      const std::int64_t last = weight_rows - 1;
      return std::min(product / product_rows, last) * weight_rows +
             std::min(product % product_rows, last);
    }
  };
  virtual Sizes sizes() const = 0;

  /// Adds the squares of the values of plain cells to squares[image].
  virtual void add_squares_of_images(PatchSpan cells, std::int64_t images,
                                     float* squares) const = 0;
  /// Adds the squares of the values of plain cells to squares[channel].
  virtual void add_squares_of_channels(PatchSpan cells, std::int64_t images,
                                       float* squares) const = 0;

  /// Transforms the values [values.first, values.last) of each cell of a patch of the input; both
  /// bounds are multiples of 32. The scale of the values 2 k and 2 k + 1 of the n-th 32 values is
  /// scales[n * scale_stride + k].
  virtual void transform_input(PatchSpan patch, Range values, const float* scales,
                               std::int64_t scale_stride, std::int16_t* to,
                               std::int64_t stride) const = 0;
  /// Transforms values of 4x4 pixels of the output gradient likewise, for the gradient of the
  /// weights; the scales of all 32 values are the same.
  virtual void transform_gradient(PatchSpan patch, Range values, const float* scales,
                                  std::int16_t* to, std::int64_t stride) const = 0;
  /// Transforms weights to cells as `Kernels::pack_weights` writes them. `is_rotated`: the 3x3
  /// kernels are rotated by 180 degrees first. `scales`: of 32 columns.
  virtual void transform_weights(const WeightMatrix& weights, std::int64_t row_block,
                                 std::int64_t column_block, bool is_rotated, const float* scales,
                                 std::int16_t* to, std::int64_t stride) const = 0;

  /// Computes the sums of plain cells A and weight cells B, in tiles [2 halves of the rows of A][2
  /// halves of the columns of B]. The products of `chunk_blocks` cells at a time are added as
  /// integers.
  virtual void multiply(const Int16Products& products, float* sums) const = 0;
  /// As above, for interleaved cells A and B, whose channels are the rows of A and the columns of
  /// B. Adds all products as integers, multiplies the sums by row_factors[row of A] *
  /// column_factors[column of B], and adds them to `sums`, or replaces those if `adds` is false.
  virtual void multiply_scaled(const Int16Products& products, const float* row_factors,
                               const float* column_factors, bool adds, float* sums) const = 0;

  /// Transforms the sums of all frequencies of products to the output, multiplies it by
  /// image_factors[image] * channel_factors[channel], and adds the bias.
  virtual void transform_output(const float* from, std::int64_t stride, const float* image_factors,
                                const float* channel_factors, const OutputTile& tile) const = 0;
  /// Transforms one row of the sums of all frequencies of weights, for 16 input channels, to the
  /// gradient of the weights: writes [input channel][tap] for the first `channels` input channels.
  virtual void transform_weight_gradient(const float* from, std::int64_t stride,
                                         std::int64_t channels, float* to) const = 0;
};

/// Returns the sizes of the tiles and patches of a direction.
inline WinogradSizes sizes_of(const Int16Kernels& kernels) {
  const Int16Kernels::Sizes sizes = kernels.sizes();
  return {.patch_size = sizes.patch_size,
          .tile_size = sizes.tile_size,
          .frequencies = sizes.product_rows * sizes.product_rows,
          .weight_frequencies = sizes.weight_rows * sizes.weight_rows};
}

/// Returns kernels that run on every processor, slowly.
const Int16Kernels& portable_int16_kernels(Int16Scheme scheme);
/// Returns kernels with AVX512-VNNI, for processors on which `Avx512Vectors::are_supported`.
const Int16Kernels& avx512_int16_kernels(Int16Scheme scheme);

}  // namespace lockstep::backend::cpu::cells
