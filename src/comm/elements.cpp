// SPDX-License-Identifier: BSD-3-Clause
#include "elements.hpp"

#include <cstring>

namespace lockstep::comm {

void load_floats(const std::byte* from, core::DataType type, std::span<float> values) {
  switch (type) {
    case core::DataType::float32: std::memcpy(values.data(), from, values.size_bytes()); return;
    case core::DataType::bfloat16:
      core::convert(std::span(reinterpret_cast<const core::BFloat16*>(from), values.size()),
                    values);
      return;
    case core::DataType::float16: {
      const auto* source = reinterpret_cast<const core::Float16*>(from);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = core::to_float(source[i]);
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
      auto* target = reinterpret_cast<core::Float16*>(to);
      for (std::size_t i = 0; i < values.size(); ++i) target[i] = core::to_float16(values[i]);
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
