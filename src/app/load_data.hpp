// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "job.hpp"
#include "lockstep/data/dataset.hpp"

namespace lockstep::app {

/// Reads or generates the images and checks that all ranks have the same. Warns of images and
/// labels that are not plausible. Throws `AgreedError`. Collective: all ranks must call this.
data::TrainingData load_data(Job& job);

}  // namespace lockstep::app
