// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>

#include "../feature_map.hpp"
#include "context.hpp"
#include "kernels/step_inputs.hpp"
#include "lockstep/core/image.hpp"
#include "staging.hpp"

namespace lockstep::backend::cuda {

/// The inputs of one step in device memory. They stay valid until the upload after the next one.
struct UploadedStep {
  const kernels::StepInputs* inputs = nullptr;
  const std::byte* pixels = nullptr;      ///< uint8 (stored images, channels, height, width)
  const core::CropFlip* crops = nullptr;  ///< (images); null: no crop and no flip
  DeviceLabels labels;                    ///< `source` is also the index of the stored image
};

/// Uploads the inputs of steps to a plan: the coefficients of the update, and a batch, which is
/// either images and labels from the host, or, if the dataset is in device memory, only the indices
/// of the samples and their crops. All inputs of a step are copied with one transfer to one of two
/// places in device memory, so that the kernels of a captured graph can read them there.
class StepUpload {
 public:
  StepUpload(const Context& context, core::ImageShape image);

  /// Copies the inputs of a step whose batch is given. `images` (n, channels, height, width),
  /// `labels` (n), n <= batch size. Enqueues the work; waits only for the copy of an earlier batch.
  void run(const kernels::StepInputs& inputs, std::span<const std::uint8_t> images,
           std::span<const std::int32_t> labels);

  /// Copies a dataset to device memory and waits for the copy. `labels` (size); `read` returns the
  /// images.
  void load_dataset(std::span<const std::int32_t> labels, const ImageReader& read);
  /// Returns the number of images of the dataset in device memory.
  std::size_t dataset_size() const { return dataset_labels_.bytes() / sizeof(std::int32_t); }
  /// As `run`, for images of the dataset in device memory. `samples` (n): their indices; `crops`
  /// (n).
  void run_samples(const kernels::StepInputs& inputs, std::span<const std::int32_t> samples,
                   std::span<const core::CropFlip> crops);

  /// Returns the step that was uploaded last.
  const UploadedStep& current() const { return current_; }
  /// Returns the places of the step that was uploaded last and of the next one.
  std::size_t place() const { return staging_.place(); }
  std::size_t next_place() const { return staging_.next_place(); }

  /// Normalises the images of the current step into `map`, whose channels may be padded. Enqueues
  /// the work.
  void normalise(const FeatureMap& map) const;

  /// Returns the device memory of an upload without a dataset, in bytes.
  static std::size_t device_bytes(std::int64_t batch, core::ImageShape image);

 private:
  const Context& context_;
  core::ImageShape image_;
  Staging staging_;
  UploadedStep current_;
  core::Buffer dataset_images_, dataset_labels_;
};

}  // namespace lockstep::backend::cuda
