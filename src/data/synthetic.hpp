// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lockstep/data/dataset.hpp"
#include "source.hpp"

namespace lockstep::data {

/// Opens the source of generated images. Throws `Error` (usage) if the parameters are invalid.
std::unique_ptr<Source> open_synthetic(const SourceRequest& request);

}  // namespace lockstep::data

namespace lockstep::data::synthetic {

/// Size of a synthetic dataset.
struct Parameters {
  std::size_t samples = 10'000;  ///< number of training images
  core::ImageShape image{3, 32, 32};
  std::int32_t classes = 10;
};

/// Generates `samples` images of shapes (disc, ring, ...). The decimal digits of the label name the
/// shapes, which are drawn one below the other: with at most 10 classes each image has one shape.
/// The shapes have random positions, sizes and colours, and the images contain noise. All shapes
/// are symmetric under horizontal flips and small enough for random crops of 32 x 32 images. Sample
/// i depends only on (seed, split, i) and has label i mod classes. Classification by class means
/// has low accuracy (the tests check it); a convolutional network learns ten classes within a few
/// hundred steps.
LabelledImages generate(Split split, std::size_t samples, std::uint64_t seed,
                        const Parameters& parameters = {},
                        core::ProgressMonitor* progress = nullptr);

}  // namespace lockstep::data::synthetic
