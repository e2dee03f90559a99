// SPDX-License-Identifier: BSD-3-Clause
#include "parameter_hash.hpp"

#include <bit>

#include "lockstep/backend/backend.hpp"

namespace lockstep::backend {

std::uint64_t parameter_hash(std::span<const float> parameters) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    sum += element_hash(i, std::bit_cast<std::uint32_t>(parameters[i]));
  return sum;
}

std::uint64_t Backend::parameter_hash(const ModelState& state) const {
  return backend::parameter_hash(state.parameters.as<float>());
}

}  // namespace lockstep::backend
