#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// XXH64 (Yann Collet, "xxHash fast digest algorithm", specification 0.1.1): not cryptographic,
/// as fast as memory.
std::uint64_t xxh64(std::span<const std::uint8_t> bytes, std::uint64_t seed);

/// 16 hexadecimal digits over images and labels of both sets.
std::string digest(const Dataset& train, const Dataset& test);

}  // namespace lockstep::data
