// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/loader.hpp"

namespace lockstep::data {

std::span<const core::NamedValue<Augmentation>> named_values(Augmentation) {
  static constexpr std::array<core::NamedValue<Augmentation>, 2> values{
      {{Augmentation::crop_flip, "crop-flip", "pad by 4, random crop and flip"},
       {Augmentation::none, "none"}}};
  return values;
}

namespace {

constexpr std::int64_t padding = 4;

void crop_flip(core::CropFlip crop, core::ImageShape shape, const std::uint8_t* from,
               std::uint8_t* to) {
  const std::int64_t height = shape.height;
  const std::int64_t width = shape.width;
  // Columns [begin, end) of the crop are inside the image; the others are padding.
  const std::int64_t begin = std::clamp<std::int64_t>(-crop.dx, 0, width);
  const std::int64_t end = std::clamp<std::int64_t>(width - crop.dx, begin, width);
  for (std::int64_t row = 0; row < shape.channels * height; ++row, to += width) {
    const std::int64_t y = row % height + crop.dy;
    if (y < 0 || y >= height) {
      std::fill_n(to, width, std::uint8_t{0});
      continue;
    }
    const std::uint8_t* source = from + (row / height * height + y) * width + crop.dx;
    if (crop.flip != 0) {
      std::fill(to, to + (width - end), std::uint8_t{0});
      std::reverse_copy(source + begin, source + end, to + (width - end));
      std::fill(to + (width - begin), to + width, std::uint8_t{0});
    } else {
      std::fill(to, to + begin, std::uint8_t{0});
      std::copy(source + begin, source + end, to + begin);
      std::fill(to + end, to + width, std::uint8_t{0});
    }
  }
}

}  // namespace

void augment(Augmentation augmentation, core::ImageShape shape, std::span<const std::uint8_t> from,
             std::span<std::uint8_t> to, std::uint64_t seed, std::int64_t epoch,
             std::uint32_t sample) {
  core::check(from.size() == to.size() && from.size() == static_cast<std::size_t>(shape.elements()),
              "images have the shape's size");
  if (augmentation == Augmentation::none) {
    std::copy(from.begin(), from.end(), to.begin());
    return;
  }
  crop_flip(choose_crop(augmentation, seed, epoch, sample), shape, from.data(), to.data());
}

core::CropFlip choose_crop(Augmentation augmentation, std::uint64_t seed, std::int64_t epoch,
                           std::uint32_t sample) {
  if (augmentation == Augmentation::none) return {};
  core::Random random(seed, core::RandomStream::augmentation, static_cast<std::uint64_t>(epoch),
                      sample);
  const auto offset = [&] {
    return static_cast<std::int8_t>(std::int64_t{random.below(2 * padding + 1)} - padding);
  };
  const std::int8_t dy = offset();
  const std::int8_t dx = offset();
  return {.dy = dy, .dx = dx, .flip = static_cast<std::uint8_t>(random.bits() & 1u)};
}

}  // namespace lockstep::data
