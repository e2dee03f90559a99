#include "images.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/images.hpp"
#include "launch.hpp"

namespace lockstep::backend::cuda {

using core::check_cuda;

namespace {

std::size_t number_bytes(std::int64_t batch) {
  return static_cast<std::size_t>(batch) * sizeof(std::int32_t);
}

/// Returns the size of one upload: images and labels. Sample indices and crops need less.
std::size_t block_bytes(std::int64_t batch, core::ImageShape image) {
  return aligned(static_cast<std::size_t>(batch * image.elements())) + aligned(number_bytes(batch));
}

}  // namespace

std::size_t ImageUpload::device_bytes(std::int64_t batch, core::ImageShape image) {
  return 2 * block_bytes(batch, image) + number_bytes(batch);
}

ImageUpload::ImageUpload(const Context& context, core::ImageShape image)
    : context_(context),
      image_(image),
      staging_(context.stream(), block_bytes(context.options.batch, image)),
      numbers_(core::device_buffer(number_bytes(context.options.batch), "labels")) {}

DeviceLabels ImageUpload::run(std::span<const std::uint8_t> images,
                              std::span<const std::int32_t> labels, const FeatureMap& map) {
  const std::byte* const block = staging_.bring({std::as_bytes(labels), std::as_bytes(images)});
  check_cuda(cudaMemcpyAsync(numbers_.data(), block, labels.size_bytes(), cudaMemcpyDeviceToDevice,
                             context_.stream()),
             "copying labels");
  normalise({.pixels = block + aligned(labels.size_bytes()),
             .source = nullptr,
             .crops = nullptr,
             .images = std::ssize(labels)},
            map);
  staging_.release();
  return {.labels = numbers_.as<std::int32_t>().data(),
          .source = nullptr,
          .images = std::ssize(labels)};
}

void ImageUpload::keep(std::span<const std::uint8_t> images, std::span<const std::uint8_t> labels) {
  const std::vector<std::int32_t> wide(labels.begin(), labels.end());
  kept_images_ = core::device_buffer(images.size_bytes(), "the data set");
  kept_labels_ = core::device_buffer(wide.size() * sizeof(std::int32_t), "the data set's labels");
  core::copy_to_device(kept_images_.data(), std::as_bytes(images),
                       "copying the data set to the GPU");
  core::copy_to_device(kept_labels_.data(), std::as_bytes(std::span(wide)),
                       "copying the data set to the GPU");
}

DeviceLabels ImageUpload::run_kept(std::span<const std::int32_t> samples,
                                   std::span<const core::CropFlip> crops, const FeatureMap& map) {
  core::check(kept_images_.bytes() > 0, "images are kept before they are asked for");
  const std::byte* const block = staging_.bring({std::as_bytes(samples), std::as_bytes(crops)});
  check_cuda(cudaMemcpyAsync(numbers_.data(), block, samples.size_bytes(), cudaMemcpyDeviceToDevice,
                             context_.stream()),
             "copying samples");
  const auto* const source = numbers_.as<std::int32_t>().data();
  normalise(
      {.pixels = kept_images_.data(),
       .source = source,
       .crops = reinterpret_cast<const core::CropFlip*>(block + aligned(samples.size_bytes())),
       .images = std::ssize(samples)},
      map);
  staging_.release();
  return {.labels = kept_labels_.as<std::int32_t>().data(),
          .source = source,
          .images = std::ssize(samples)};
}

void ImageUpload::normalise(const Batch& batch, const FeatureMap& map) const {
  const Normalisation& normalisation = context_.options.normalisation;
  with_type(map.type, [&](auto zero) {
    using T = decltype(zero);
    kernels::NormaliseImages<T> kernel{
        .pixels = reinterpret_cast<const std::uint8_t*>(batch.pixels),
        .source = batch.source,
        .crops = batch.crops,
        .y = map.as<T>(),
        .images = batch.images,
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
