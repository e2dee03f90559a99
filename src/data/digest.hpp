#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Returns the XXH64 hash (Yann Collet, "xxHash fast digest algorithm", specification 0.1.1) of
/// `bytes`. The hash is not cryptographic; it is about as fast as reading the bytes from memory.
std::uint64_t xxh64(std::span<const std::uint8_t> bytes, std::uint64_t seed);

/// Returns a hash of the images and labels of both data sets, 16 hexadecimal digits.
std::string digest(const Dataset& train, const Dataset& test);

}  // namespace lockstep::data
