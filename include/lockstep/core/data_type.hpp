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

/// Converts arrays element by element. `from` and `to` must have the same length and not overlap.
void convert(std::span<const float> from, std::span<BFloat16> to);
void convert(std::span<const BFloat16> from, std::span<float> to);

std::span<const NamedValue<DataType>> named_values(DataType);    ///< "fp32", "bf16", "fp16"
std::span<const NamedValue<Precision>> named_values(Precision);  ///< "fp32", "tf32", "bf16", "fp16"

}  // namespace lockstep::core
