#pragma once

#include <cstddef>

namespace lockstep::backend::cuda {

/// Rounded up to a multiple of 256: where a piece of the device's memory may begin behind one of
/// `bytes`, whatever reads it.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace lockstep::backend::cuda
