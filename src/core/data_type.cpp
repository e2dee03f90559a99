// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/data_type.hpp"

#include <array>

namespace lockstep::core {

std::size_t size_of(DataType type) { return type == DataType::float32 ? 4 : 2; }

// The loops have no branches, so the compiler vectorises them for each instruction set.
__attribute__((target_clones("avx512f", "avx2", "default"))) void convert(
    std::span<const float> from, std::span<BFloat16> to) {
  const std::size_t count = from.size();
  const float* source = from.data();
  BFloat16* target = to.data();
  for (std::size_t i = 0; i < count; ++i) target[i] = to_bfloat16(source[i]);
}

__attribute__((target_clones("avx512f", "avx2", "default"))) void convert(
    std::span<const BFloat16> from, std::span<float> to) {
  const std::size_t count = from.size();
  const BFloat16* source = from.data();
  float* target = to.data();
  for (std::size_t i = 0; i < count; ++i) target[i] = to_float(source[i]);
}

std::span<const NamedValue<DataType>> named_values(DataType) {
  static constexpr std::array<NamedValue<DataType>, 3> values{
      {{DataType::float32, "fp32"}, {DataType::bfloat16, "bf16"}, {DataType::float16, "fp16"}}};
  return values;
}

std::span<const NamedValue<Precision>> named_values(Precision) {
  static constexpr std::array<NamedValue<Precision>, 4> values{
      {{Precision::fp32, "fp32"},
       {Precision::tf32, "tf32", "on GPUs"},
       {Precision::bf16, "bf16"},
       {Precision::fp16, "fp16", "on GPUs, with loss scaling"}}};
  return values;
}

}  // namespace lockstep::core
