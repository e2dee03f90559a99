#include "sum_kernels.hpp"

namespace lockstep::comm {

using core::BFloat16;

[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]] void add(
    std::span<const float> part, std::span<float> sum) {
  const std::size_t count = part.size();
  const float* from = part.data();
  float* to = sum.data();
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]] void add(
    std::span<const BFloat16> part, std::span<float> sum) {
  const std::size_t count = part.size();
  const BFloat16* from = part.data();
  float* to = sum.data();
  for (std::size_t i = 0; i < count; ++i) to[i] += core::to_float(from[i]);
}

}  // namespace lockstep::comm
