// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Whether a dataset has all images of its source, or those that `DataOptions::train_samples` and
/// `test_samples` select.
enum class Extent { all, first_images };

/// Returns a warning, one sentence, for each property of the images and labels that a correct
/// dataset hardly has by chance: no image of a class, equal images, pixels of 0 and 1 only.
/// docs/reliability.md lists them with their limits. Takes the time of one hash of every image.
std::vector<std::string> implausible(const TrainingData& data, Extent extent = Extent::all);

}  // namespace lockstep::data
