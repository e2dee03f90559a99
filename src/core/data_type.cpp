#include "lockstep/core/data_type.hpp"

#include "lockstep/core/error.hpp"

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

std::string_view name(DataType type) {
  switch (type) {
    case DataType::float32: return "fp32";
    case DataType::bfloat16: return "bf16";
    case DataType::float16: return "fp16";
  }
  check(false, "unknown data type");
  return {};
}

std::string_view name(Precision precision) {
  switch (precision) {
    case Precision::fp32: return "fp32";
    case Precision::tf32: return "tf32";
    case Precision::bf16: return "bf16";
    case Precision::fp16: return "fp16";
  }
  check(false, "unknown precision");
  return {};
}

}  // namespace lockstep::core
