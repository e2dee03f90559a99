// SPDX-License-Identifier: BSD-3-Clause
#include "elements.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace lockstep::comm {

namespace {

constexpr std::uint32_t sign_bit = 0x80000000u;
constexpr std::uint32_t infinity = 0x7f800000u;

constexpr std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

}  // namespace

float to_float(Float16 value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  std::uint32_t bits = 0;
  if (magnitude >= 0x7c00u) {  // infinity, NaN
    bits = infinity | (magnitude & 0x3ffu) << 13;
  } else if (magnitude < 0x400u) {  // 0, subnormal: multiples of 2^-24
    bits = bits_of(static_cast<float>(magnitude) * 0x1p-24f);
  } else {
    bits = (magnitude << 13) + ((127u - 15u) << 23);
  }
  return std::bit_cast<float>(sign | bits);
}

Float16 to_float16(float value) {
  const std::uint32_t sign = (bits_of(value) & sign_bit) >> 16;
  const std::uint32_t magnitude = bits_of(value) & ~sign_bit;
  std::uint32_t bits = 0;
  if (magnitude > infinity) {
    bits = 0x7e00u;  // a quiet NaN
  } else if (magnitude >= bits_of(65520.0f)) {
    bits = 0x7c00u;
  } else if (magnitude < bits_of(0x1p-14f)) {  // becomes subnormal: rounded to a multiple of 2^-24
    bits = static_cast<std::uint32_t>(std::lrint(std::bit_cast<float>(magnitude) * 0x1p24f));
  } else {
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    bits = (rounded - ((127u - 15u) << 23)) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | bits)};
}

void load_floats(const std::byte* from, core::DataType type, std::span<float> values) {
  switch (type) {
    case core::DataType::float32: std::memcpy(values.data(), from, values.size_bytes()); return;
    case core::DataType::bfloat16:
      core::convert(std::span(reinterpret_cast<const core::BFloat16*>(from), values.size()),
                    values);
      return;
    case core::DataType::float16: {
      const auto* source = reinterpret_cast<const Float16*>(from);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_float(source[i]);
      return;
    }
  }
}

void store_floats(std::span<const float> values, core::DataType type, std::byte* to) {
  switch (type) {
    case core::DataType::float32: std::memcpy(to, values.data(), values.size_bytes()); return;
    case core::DataType::bfloat16:
      core::convert(values, std::span(reinterpret_cast<core::BFloat16*>(to), values.size()));
      return;
    case core::DataType::float16: {
      auto* target = reinterpret_cast<Float16*>(to);
      for (std::size_t i = 0; i < values.size(); ++i) target[i] = to_float16(values[i]);
      return;
    }
  }
}

[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]] void add(
    std::span<const float> part, std::span<float> sum) {
  const std::size_t count = part.size();
  const float* from = part.data();
  float* to = sum.data();
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]] void add(
    std::span<const core::BFloat16> part, std::span<float> sum) {
  const std::size_t count = part.size();
  const core::BFloat16* from = part.data();
  float* to = sum.data();
  for (std::size_t i = 0; i < count; ++i) to[i] += core::to_float(from[i]);
}

}  // namespace lockstep::comm
