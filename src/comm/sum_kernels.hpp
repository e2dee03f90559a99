#pragma once

#include <span>

#include "lockstep/core/data_type.hpp"

namespace lockstep::comm {

/// sum += part, in float32; same lengths.
void add(std::span<const float> part, std::span<float> sum);
void add(std::span<const core::BFloat16> part, std::span<float> sum);

}  // namespace lockstep::comm
