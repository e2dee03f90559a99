// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/core/named_value.hpp"
#include "lockstep/core/progress.hpp"

namespace lockstep::data {

enum class Augmentation {
  none,
  crop_flip,  ///< pad by 4 zeros, crop at a random position, flip horizontally with probability 1/2
};
std::span<const core::NamedValue<Augmentation>> named_values(Augmentation);

/// Handling of an incomplete last global batch.
enum class LastBatch {
  drop,  ///< leave it out
  pad,   ///< fill it with samples from the beginning of the epoch's permutation
};
std::span<const core::NamedValue<LastBatch>> named_values(LastBatch);

/// Memory in which the training images are stored if a GPU trains.
enum class DataResidency {
  host,    ///< host memory: batches are prepared there and copied to the device
  device,  ///< device memory: all images are copied once, and batches are prepared there
};
std::span<const core::NamedValue<DataResidency>> named_values(DataResidency);

/// Selection of a dataset, and how its batches are prepared.
struct DataOptions {
  std::string source = "synthetic";  ///< in one of the forms that `source_syntaxes` returns
  std::int64_t train_samples = 0;    ///< number of training images, from the first; 0 for all
  std::int64_t test_samples = 0;     ///< number of test images, from the first; 0 for all
  Augmentation augmentation = Augmentation::crop_flip;
  LastBatch last_batch = LastBatch::drop;
  int loader_threads = 2;  ///< threads that prepare batches; 0: `DataLoader::next` prepares them
  DataResidency residency = DataResidency::host;
  std::uint64_t seed = 1;  ///< seed of the synthetic dataset and of the augmentation
  core::ProgressMonitor* progress = nullptr;  ///< notified of each file or 1,000 generated images
};

}  // namespace lockstep::data
