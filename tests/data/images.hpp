// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Returns `size` random bytes, which depend only on `index`.
inline std::vector<std::uint8_t> random_bytes(std::size_t size, std::uint64_t index) {
  core::Random random(5, core::RandomStream::test, index);
  std::vector<std::uint8_t> bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.bits());
  return bytes;
}

/// Returns `samples` random images of shape `image`. The label of sample i is i mod 10.
inline LabelledImages random_content(std::size_t samples, core::ImageShape image) {
  LabelledImages content{
      .images = random_bytes(samples * static_cast<std::size_t>(image.elements()), samples),
      .labels = std::vector<std::int32_t>(samples)};
  for (std::size_t i = 0; i < samples; ++i) content.labels[i] = static_cast<std::int32_t>(i % 10);
  return content;
}

inline Dataset make_dataset(LabelledImages content, core::ImageShape image,
                            std::int64_t classes = 10) {
  return {{.name = "random", .image = image, .classes = classes}, std::move(content)};
}

inline Dataset random_dataset(std::size_t samples, core::ImageShape image) {
  return make_dataset(random_content(samples, image), image);
}

}  // namespace lockstep::data
