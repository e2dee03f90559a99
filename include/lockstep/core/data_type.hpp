// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/named_value.hpp"

namespace lockstep::core {

/// Element type of tensors and of the data communicated between ranks.
enum class DataType { float32, bfloat16, float16 };

/// Precision of a training step: the data type of activations and matrix products. Accumulation,
/// statistics and master weights are float32 in all modes.
enum class Precision { fp32, tf32, bf16, fp16 };

/// Returns the size of one element in bytes.
std::size_t size_of(DataType type);

/// A bfloat16 number: the upper 16 bits of a float32 (Intel's bfloat16 white paper, 2018).
struct BFloat16 {
  std::uint16_t bits = 0;
};

inline float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

/// Rounds to nearest, ties to even. NaN remains NaN.
inline BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<std::uint16_t>(is_nan ? (bits >> 16) | 0x40u : rounded >> 16)};
}

/// An IEEE 754 binary16 number.
struct Float16 {
  std::uint16_t bits = 0;
};

inline float to_float(Float16 value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  std::uint32_t bits = 0;
  if (magnitude >= 0x7c00u) {  // infinity, NaN
    bits = 0x7f800000u | (magnitude & 0x3ffu) << 13;
  } else if (magnitude < 0x400u) {  // 0, subnormal: multiples of 2^-24
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  } else {
    bits = (magnitude << 13) + ((127u - 15u) << 23);
  }
  return std::bit_cast<float>(sign | bits);
}

/// Rounds to nearest, ties to even. Magnitudes of 65520 and above become infinity; NaN remains NaN.
inline Float16 to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;  // a quiet NaN
  } else if (magnitude >= std::bit_cast<std::uint32_t>(65520.0f)) {
    half = 0x7c00u;
  } else if (magnitude < std::bit_cast<std::uint32_t>(0x1p-14f)) {
    // float32 numbers in [0.5, 1) have a spacing of 2^-24, as have subnormal binary16 numbers, so
    // the addition does the rounding.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - ((127u - 15u) << 23)) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | half)};
}

/// Converts arrays element by element. `from` and `to` must have the same length and not overlap.
void convert(std::span<const float> from, std::span<BFloat16> to);
void convert(std::span<const BFloat16> from, std::span<float> to);

std::span<const NamedValue<DataType>> named_values(DataType);    ///< "fp32", "bf16", "fp16"
std::span<const NamedValue<Precision>> named_values(Precision);  ///< "fp32", "tf32", "bf16", "fp16"

}  // namespace lockstep::core
