// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <span>

#include "lockstep/core/data_type.hpp"

// Conversions and sums of arrays in the data types of communication.
namespace lockstep::comm {

/// Reads `values.size()` contiguous elements of `type` at `from` and converts them to float32.
void load_floats(const std::byte* from, core::DataType type, std::span<float> values);

/// Rounds `values` to `type` and writes them to contiguous elements at `to`.
void store_floats(std::span<const float> values, core::DataType type, std::byte* to);

/// Adds `part` to `sum` element by element, in float32. Both must have the same length.
void add(std::span<const float> part, std::span<float> sum);
void add(std::span<const core::BFloat16> part, std::span<float> sum);

}  // namespace lockstep::comm
