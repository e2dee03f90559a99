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

void ImageUpload::load_dataset(std::span<const std::int32_t> labels, const ImageReader& read) {
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

DeviceLabels ImageUpload::run_samples(std::span<const std::int32_t> samples,
                                      std::span<const core::CropFlip> crops,
                                      const FeatureMap& map) {
  core::check(dataset_images_.bytes() > 0, "a dataset is loaded before its samples are uploaded");
  const std::byte* const block = staging_.bring({std::as_bytes(samples), std::as_bytes(crops)});
  check_cuda(cudaMemcpyAsync(numbers_.data(), block, samples.size_bytes(), cudaMemcpyDeviceToDevice,
                             context_.stream()),
             "copying samples");
  const auto* const source = numbers_.as<std::int32_t>().data();
  normalise(
      {.pixels = dataset_images_.data(),
       .source = source,
       .crops = reinterpret_cast<const core::CropFlip*>(block + aligned(samples.size_bytes())),
       .images = std::ssize(samples)},
      map);
  staging_.release();
  return {.labels = dataset_labels_.as<std::int32_t>().data(),
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
