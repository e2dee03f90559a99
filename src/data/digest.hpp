// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Returns a hash (XXH64) of the images and labels of both datasets, 16 hexadecimal digits.
/// Labels are hashed as bytes if there are at most 256 classes, as little-endian int32 otherwise.
std::string digest(const Dataset& train, const Dataset& test);

}  // namespace lockstep::data
