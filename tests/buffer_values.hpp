// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "lockstep/core/buffer.hpp"

namespace lockstep::test {

/// Returns a copy of the float32 values of a buffer.
inline std::vector<float> copy(const core::Buffer& buffer) {
  const auto values = buffer.as<float>();
  return {values.begin(), values.end()};
}

}  // namespace lockstep::test
