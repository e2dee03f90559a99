// SPDX-License-Identifier: BSD-3-Clause
#include "step_upload.hpp"

#include <algorithm>
#include <vector>

#include "kernels/layout.hpp"
#include "launch.hpp"

namespace lockstep::backend::cuda {

namespace {

/// Returns the size of one upload: inputs, labels and images. Sample indices and crops need less.
std::size_t block_bytes(std::int64_t batch, core::ImageShape image) {
  return aligned(sizeof(StepInputs)) +
         aligned(static_cast<std::size_t>(batch) * sizeof(std::int32_t)) +
         aligned(static_cast<std::size_t>(batch * image.elements()));
}

std::span<const std::byte> bytes_of(const StepInputs& inputs) {
  return std::as_bytes(std::span(&inputs, 1));
}

const StepInputs* as_inputs(const std::byte* data) {
  return reinterpret_cast<const StepInputs*>(data);
}

}  // namespace

std::array<const std::byte*, StepUpload::parts> StepUpload::bring(
    const std::array<std::span<const std::byte>, parts>& upload) {
  check_cuda(cudaEventRecord(places_[place_].used.get(), context_.stream()), "ordering copies");
  place_ = next_place();
  const Place& place = places_[place_];
  check_cuda(cudaEventSynchronize(place.copied.get()), "waiting for an earlier batch's copy");
  std::array<const std::byte*, parts> addresses{};
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < parts; ++i) {
    core::check(bytes + upload[i].size() <= place.pinned.bytes(), "an upload fits its place");
    std::ranges::copy(upload[i], place.pinned.data() + bytes);
    addresses[i] = place.device.data() + bytes;
    bytes += aligned(upload[i].size());
  }
  bytes = std::min(bytes, place.pinned.bytes());
  check_cuda(cudaStreamWaitEvent(copies_.get(), place.used.get(), 0), "ordering copies");
  check_cuda(cudaMemcpyAsync(place.device.data(), place.pinned.data(), bytes,
                             cudaMemcpyHostToDevice, copies_.get()),
             "copying a batch to the GPU");
  check_cuda(cudaEventRecord(place.copied.get(), copies_.get()), "ordering copies");
  check_cuda(cudaStreamWaitEvent(context_.stream(), place.copied.get(), 0), "ordering copies");
  return addresses;
}

std::size_t StepUpload::device_bytes(std::int64_t batch, core::ImageShape image) {
  return places * block_bytes(batch, image);
}

StepUpload::StepUpload(const Context& context, core::ImageShape image)
    : context_(context), image_(image), copies_(core::make_stream()) {
  const std::size_t bytes = block_bytes(context.options.batch, image);
  for (Place& place : places_) {
    place = {core::pinned_buffer(bytes), core::device_buffer(bytes, "staging of batches"),
             core::make_event(), core::make_event()};
  }
}

void StepUpload::run(const StepInputs& inputs, std::span<const std::uint8_t> images,
                     std::span<const std::int32_t> labels) {
  const auto uploaded = bring({bytes_of(inputs), std::as_bytes(labels), std::as_bytes(images)});
  current_ = {.inputs = as_inputs(uploaded[0]),
              .pixels = uploaded[2],
              .crops = nullptr,
              .labels = reinterpret_cast<const std::int32_t*>(uploaded[1]),
              .source = nullptr,
              .images = std::ssize(labels)};
}

void StepUpload::load_dataset(std::span<const std::int32_t> labels, const ImageReader& read) {
  constexpr std::size_t copy_bytes = 4u << 20;  // copied at a time, to limit the host memory
  const auto image_bytes = static_cast<std::size_t>(image_.elements());
  const std::size_t block_images = std::max<std::size_t>(copy_bytes / image_bytes, 1);
  dataset_images_ = core::device_buffer(labels.size() * image_bytes, "the dataset");
  dataset_labels_ = core::device_buffer(labels.size_bytes(), "the dataset's labels");
  std::vector<std::uint8_t> block(std::min(block_images, labels.size()) * image_bytes);
  for (std::size_t first = 0; first < labels.size(); first += block_images) {
    const std::size_t count = std::min(block_images, labels.size() - first);
    const auto images = std::span(block).first(count * image_bytes);
    read(first, images);
    core::copy_to_device(dataset_images_.data() + first * image_bytes, std::as_bytes(images),
                         "copying the dataset to the GPU");
  }
  core::copy_to_device(dataset_labels_.data(), std::as_bytes(labels),
                       "copying the dataset to the GPU");
}

void StepUpload::run_samples(const StepInputs& inputs, std::span<const std::int32_t> samples,
                             std::span<const core::CropFlip> crops) {
  core::check(dataset_images_.bytes() > 0, "a dataset is loaded before its samples are uploaded");
  const auto uploaded = bring({bytes_of(inputs), std::as_bytes(samples), std::as_bytes(crops)});
  current_ = {.inputs = as_inputs(uploaded[0]),
              .pixels = dataset_images_.data(),
              .crops = reinterpret_cast<const core::CropFlip*>(uploaded[2]),
              .labels = dataset_labels_.as<std::int32_t>().data(),
              .source = reinterpret_cast<const std::int32_t*>(uploaded[1]),
              .images = std::ssize(samples)};
}

void StepUpload::normalise(const FeatureMap& map) const {
  const Normalisation& normalisation = context_.options.normalisation;
  with_type(map.type, [&](auto zero) {
    using T = decltype(zero);
    kernels::NormaliseImages<T> kernel{
        .pixels = reinterpret_cast<const std::uint8_t*>(current_.pixels),
        .source = current_.source,
        .crops = current_.crops,
        .y = map.as<T>(),
        .images = current_.images,
        .channels = image_.channels,
        .height = image_.height,
        .width = image_.width,
        .padded_channels = map.shape.channels,
        .mean = {},
        .deviation = {}};
    std::ranges::copy(normalisation.mean, kernel.mean);
    std::ranges::copy(normalisation.standard_deviation, kernel.deviation);
    launch(context_.stream(), kernel);
  });
}

}  // namespace lockstep::backend::cuda
