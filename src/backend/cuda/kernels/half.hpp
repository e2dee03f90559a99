// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Conversion of IEEE 754 binary16 with integer arithmetic, for the host. On the device, the
// hardware converts.

#include <bit>
#include <cstdint>

namespace lockstep::backend::cuda::kernels {

/// The bits of an IEEE 754 half-precision number.
struct Float16 {
  std::uint16_t bits = 0;
};

namespace host {

/// Returns the exact value.
inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero and subnormal numbers: mantissa x 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 0x1fu ? 0xffu : exponent + 112u;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

/// Rounds to nearest, ties to even; values of magnitude 65520 and above become infinity; NaN stays
/// NaN.
inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    // float32 numbers in [0.5, 1) have a spacing of 2^-24, as have subnormal binary16 numbers, so
    // the addition does the rounding.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

}  // namespace host

}  // namespace lockstep::backend::cuda::kernels
