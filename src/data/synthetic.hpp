#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data::synthetic {

enum class Split : std::uint32_t { train, test };

inline constexpr std::size_t default_samples = 10'000;

/// Generates `samples` images of ten classes of shapes (disc, ring, ...) with the size of CIFAR-10
/// images (3 x 32 x 32). The shapes have random positions, sizes and colours, and the images
/// contain noise. All shapes are symmetric under horizontal flips and small enough for random
/// crops. Sample i depends only on (seed, split, i) and has label i mod 10. Classification by class
/// means has low accuracy (the tests check it); a convolutional network learns the classes within a
/// few hundred steps.
Dataset generate(Split split, std::size_t samples, std::uint64_t seed,
                 core::ProgressMonitor* progress = nullptr);

}  // namespace lockstep::data::synthetic
