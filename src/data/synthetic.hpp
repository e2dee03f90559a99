#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data::synthetic {

enum class Split : std::uint32_t { train, test };

inline constexpr std::size_t default_samples = 10'000;

/// Ten classes of shapes (disc, ring, ...) on CIFAR-10's 3 x 32 x 32 pixels, in random places,
/// sizes and colours, under noise. All are symmetric under mirroring and small enough for crops.
/// Sample i is a function of (seed, split, i) alone and has label i mod 10. Class means tell little
/// (the tests say how much), a convolutional network learns them within a few hundred steps.
Dataset generate(Split split, std::size_t samples, std::uint64_t seed,
                 core::ProgressMonitor* progress = nullptr);

}  // namespace lockstep::data::synthetic
