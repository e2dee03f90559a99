#pragma once

#include <span>

#include "lockstep/core/data_type.hpp"

namespace lockstep::comm {

/// Adds `part` to `sum` element by element, in float32. Both must have the same length.
void add(std::span<const float> part, std::span<float> sum);
void add(std::span<const core::BFloat16> part, std::span<float> sum);

}  // namespace lockstep::comm
