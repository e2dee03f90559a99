// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cfloat>
#include <cmath>
#include <cstddef>

#include "f2x2_matrices.hpp"
#include "int16_kernels.hpp"
#include "kernels.hpp"
#include "tiles.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

/// Rounds as VCVTNE2PS2BF16 does, which reads denormals as zero.
BFloat16 rounded(float value) {
  return core::to_bfloat16(std::fabs(value) < FLT_MIN ? std::copysign(0.0F, value) : value);
}

/// Transforms the values [part.first, part.last) of the cells of a patch.
template <class Transform, class Patch>
void transform_cells(const Patch& patch, Range part, BFloat16* to, std::int64_t stride) {
  for (std::int64_t i = part.first; i < part.last; ++i) {
    Square<float, Transform::in> values;
    for (std::size_t at = 0; at < patch.size(); ++at)
      values[at / Transform::in][at % Transform::in] = core::to_float(patch[at][i]);
    const auto results = transformed<Transform>(values);
    for (std::size_t f = 0; f < frequencies; ++f)
      to[static_cast<std::int64_t>(f) * stride + i] = rounded(results[f / 4][f % 4]);
  }
}

using OutputPixels = Square<std::array<float, cell_channels>, 2>;

/// Returns the output of one image in a tile, rounded to bfloat16, from its sums `from`. `bias`: of
/// each channel, or null.
OutputPixels output_pixels(const float* from, std::int64_t stride, std::int64_t image,
                           const float* bias) {
  OutputPixels outputs{};
  for (std::int64_t channel = 0; channel < cell_channels; ++channel) {
    Square<float, 4> sums;
    const float* at =
        from + (image / 16 * 2 + channel / 16) * tile_floats + image % 16 * 16 + channel % 16;
    for (std::size_t f = 0; f < frequencies; ++f, at += stride) sums[f / 4][f % 4] = *at;
    const auto values = transformed<OutputTransform>(sums);
    for (std::size_t pixel = 0; pixel < 4; ++pixel)
      outputs[pixel / 2][pixel % 2][static_cast<std::size_t>(channel)] = core::to_float(
          rounded(values[pixel / 2][pixel % 2] + (bias != nullptr ? bias[channel] : 0.0F)));
  }
  return outputs;
}

}  // namespace

alignas(64) const BFloat16 zero_cell[cell_size] = {};

const Int16Kernels& Kernels::int16(Int16Scheme scheme) const {
  return portable_int16_kernels(scheme);
}

void Kernels::interleave(const BFloat16* plain, std::int64_t images, BFloat16* interleaved) const {
  for (std::int64_t image = 0; image < cell_images; ++image) {
    for (std::int64_t channel = 0; channel < cell_channels; ++channel)
      interleaved[channel / 16 * tile_halves + image / 2 * 32 + channel % 16 * 2 + image % 2] =
          image < images ? plain[image * cell_channels + channel] : BFloat16{};
  }
}

void Kernels::transpose(const BFloat16* plain, std::int64_t images, BFloat16* transposed) const {
  for (std::int64_t image = 0; image < cell_images; ++image) {
    for (std::int64_t channel = 0; channel < cell_channels; ++channel)
      transposed[channel * cell_images + image] =
          image < images ? plain[image * cell_channels + channel] : BFloat16{};
  }
}

void Kernels::add_images(const BFloat16* plain, std::int64_t images, float* sums) const {
  for (std::int64_t image = 0; image < images; ++image) {
    for (std::int64_t channel = 0; channel < cell_channels; ++channel)
      sums[channel] += core::to_float(plain[image * cell_channels + channel]);
  }
}

void Kernels::pack_weights(const WeightMatrix& weights, std::int64_t row_block,
                           std::int64_t column_block, BFloat16* cells,
                           std::int64_t tap_stride) const {
  for (std::int64_t tap = 0; tap < weights.taps(); ++tap) {
    for (std::int64_t i = 0; i < cell_channels; ++i) {
      for (std::int64_t j = 0; j < cell_channels; ++j) {
        const std::int64_t row = row_block * cell_channels + i;
        const std::int64_t column = column_block * cell_channels + j;
        const bool exists = row < weights.rows && column < weights.columns;
        cells[tap * tap_stride + j / 16 * tile_halves + i / 2 * 32 + j % 16 * 2 + i % 2] =
            exists
                ? rounded(
                      weights.flat[row * weights.row_stride + column * weights.column_stride + tap])
                : BFloat16{};
      }
    }
  }
}

void Kernels::write_pixel(const float* sums, const MapRow& row, std::int64_t offset, bool,
                          PartialSums* statistics) {
  for (std::int64_t image = 0; image < row.images; ++image) {
    std::array<float, 32> values{};
    for (std::int64_t channel = 0; channel < cell_channels; ++channel) {
      const BFloat16 value = rounded(
          sums[(image / 16 * 2 + channel / 16) * tile_floats + image % 16 * 16 + channel % 16]);
      row.first[offset + image * cell_channels + channel] = value;
      values[static_cast<std::size_t>(channel)] = core::to_float(value);
    }
    if (statistics != nullptr) statistics->add(values);
  }
}

void Kernels::transform_input(const PatchCells& patch, Range values, BFloat16* to,
                              std::int64_t stride) const {
  transform_cells<InputTransform>(patch, values, to, stride);
}

void Kernels::transform_gradient(const GradientPatchCells& patch, BFloat16* to,
                                 std::int64_t stride) const {
  transform_cells<GradientTransform>(patch, {0, cell_size}, to, stride);
}

void Kernels::transform_weights(const WeightMatrix& weights, std::int64_t row_block,
                                std::int64_t column_block, bool is_rotated, BFloat16* to,
                                std::int64_t stride) const {
  for (std::int64_t i = 0; i < cell_channels; ++i) {
    for (std::int64_t j = 0; j < cell_channels; ++j) {
      const std::int64_t row = row_block * cell_channels + i;
      const std::int64_t column = column_block * cell_channels + j;
      Square<float, 3> kernel{};
      for (std::size_t tap = 0; tap < 9 && row < weights.rows && column < weights.columns; ++tap)
        kernel[tap / 3][tap % 3] =
            weights.flat[row * weights.row_stride + column * weights.column_stride +
                         static_cast<std::int64_t>(is_rotated ? 8 - tap : tap)];
      const auto values = transformed<WeightTransform>(kernel);
      for (std::int64_t f = 0; f < frequencies; ++f)
        to[f * stride + j / 16 * tile_halves + i / 2 * 32 + j % 16 * 2 + i % 2] =
            rounded(values[static_cast<std::size_t>(f / 4)][static_cast<std::size_t>(f % 4)]);
    }
  }
}

void Kernels::transform_output(const float* from, std::int64_t stride,
                               const OutputTile& tile) const {
  const MapRow& row = tile.first_row;
  for (std::int64_t image = 0; image < row.images; ++image) {
    const OutputPixels outputs = output_pixels(from, stride, image, tile.bias);
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      for (std::int64_t j = 0; j < row.pixels; ++j) {
        const auto& values = outputs[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
        BFloat16* const to =
            row.first + i * tile.row_stride + j * row.pixel_stride + image * cell_channels;
        for (std::int64_t channel = 0; channel < cell_channels; ++channel)
          to[channel] = rounded(values[static_cast<std::size_t>(channel)]);
        if (tile.statistics != nullptr) tile.statistics->add(values);
      }
    }
  }
}

void Kernels::transform_weight_gradient(const float* from, std::int64_t stride,
                                        std::int64_t channels, float* to) const {
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    Square<float, 4> sums;
    for (std::size_t f = 0; f < frequencies; ++f)
      sums[f / 4][f % 4] = from[static_cast<std::int64_t>(f) * stride + channel];
    const auto values = transformed<WeightGradientTransform>(sums);
    for (std::size_t tap = 0; tap < 9; ++tap) *to++ = values[tap / 3][tap % 3];
  }
}

}  // namespace lockstep::backend::cpu::cells
