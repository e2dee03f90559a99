// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "../feature_map.hpp"
#include "context.hpp"
#include "lockstep/core/cuda.hpp"

namespace lockstep::backend::cuda {

/// Uploads the inputs of steps to a plan: the coefficients of the update, and a batch, which is
/// either images and labels from the host, or, if the dataset is in device memory, only the indices
/// of the samples and their crops. All inputs of a step are copied with one transfer on a separate
/// stream, from one of two places in pinned host memory to one of two places in device memory,
/// where the kernels of a captured graph can read them. The copy can thus overlap with the previous
/// step; the compute stream waits only for its end.
class StepUpload {
 public:
  static constexpr std::size_t places = 2;

  StepUpload(const Context& context, core::ImageShape image);

  /// Copies the inputs of a step whose batch is given. `images` (n, channels, height, width),
  /// `labels` (n), n <= batch size. Enqueues the work; waits only for the copy of an earlier batch.
  void run(const StepInputs& inputs, std::span<const std::uint8_t> images,
           std::span<const std::int32_t> labels);

  /// Copies a dataset to device memory and waits for the copy. `labels` (size); `read` returns the
  /// images.
  void load_dataset(std::span<const std::int32_t> labels, const ImageReader& read);
  /// Returns the number of images of the dataset in device memory.
  std::size_t dataset_size() const { return dataset_labels_.bytes() / sizeof(std::int32_t); }
  /// As `run`, for images of the dataset in device memory. `samples` (n): their indices; `crops`
  /// (n).
  void run_samples(const StepInputs& inputs, std::span<const std::int32_t> samples,
                   std::span<const core::CropFlip> crops);

  /// Returns the step that was uploaded last.
  const UploadedStep& current() const { return current_; }
  /// Returns the places of the step that was uploaded last and of the next one.
  std::size_t place() const { return place_; }
  std::size_t next_place() const { return (place_ + 1) % places; }

  /// Normalises the images of the current step into `map`, whose channels may be padded. Enqueues
  /// the work.
  void normalise(const FeatureMap& map) const;

  /// Returns the device memory of an upload without a dataset, in bytes.
  static std::size_t device_bytes(std::int64_t batch, core::ImageShape image);

 private:
  static constexpr std::size_t parts = 3;

  /// Copies the parts of an upload to the next place in device memory, one after the other, each at
  /// a multiple of 256 bytes, and returns their addresses. Work that is enqueued on the compute
  /// stream after this call finds the parts there, and work that is enqueued before the call after
  /// the next one. Waits only until the copy before the previous one is complete, because it used
  /// the same pinned buffer.
  std::array<const std::byte*, parts> bring(
      const std::array<std::span<const std::byte>, parts>& upload);

  struct Place {
    core::Buffer pinned, device;
    core::Event copied, used;
  };

  const Context& context_;
  core::ImageShape image_;
  core::Stream copies_;
  std::array<Place, places> places_;
  std::size_t place_ = 0;
  UploadedStep current_;
  core::Buffer dataset_images_, dataset_labels_;
};

}  // namespace lockstep::backend::cuda
