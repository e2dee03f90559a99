#include "in_memory_dataset.hpp"

#include <algorithm>
#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::data {

InMemoryDataset::InMemoryDataset(DatasetInfo info, LabelledImages content)
    : info_(std::move(info)), content_(std::move(content)) {
  core::check(content_.images.size() == size() * image_bytes(),
              "a dataset has one image per label");
  core::check(std::ranges::all_of(
                  content_.labels,
                  [this](std::int32_t label) { return label >= 0 && label < info_.classes; }),
              "labels are classes of the dataset");
}

std::span<const std::uint8_t> InMemoryDataset::read_image(std::size_t sample,
                                                          std::span<std::uint8_t>) const {
  return std::span(content_.images).subspan(sample * image_bytes(), image_bytes());
}

std::uint64_t InMemoryDataset::bytes(core::ImageShape image, std::size_t samples) {
  return samples * (static_cast<std::uint64_t>(image.elements()) + sizeof(std::int32_t));
}

}  // namespace lockstep::data
