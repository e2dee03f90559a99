#pragma once

#include <string>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Returns a hash (XXH64) of the images and labels of both data sets, 16 hexadecimal digits.
std::string digest(const Dataset& train, const Dataset& test);

}  // namespace lockstep::data
