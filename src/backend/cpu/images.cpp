// SPDX-License-Identifier: BSD-3-Clause
// Conversion of uploaded images: bytes to normalised values in the layout of the first convolution.

#include <algorithm>

#include "operations.hpp"
#include "vectors.hpp"

namespace lockstep::backend::cpu {

ImageNormaliser::ImageNormaliser(const Normalisation& normalisation, std::int64_t channels,
                                 int threads)
    : table_(static_cast<std::size_t>(channels) * 256), threads_(threads) {
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(channels); ++channel) {
    const std::size_t known = std::min(channel, normalisation.mean.size() - 1);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      table_[channel * 256 + byte] =
          (static_cast<float>(byte) / 255.0f - normalisation.mean[known]) /
          normalisation.standard_deviation[known];
    }
  }
}

void ImageNormaliser::run(std::span<const std::uint8_t> images, const FeatureMap& map) const {
  with_type(map.type, [&]<class T>() { run_as<T>(images, map); });
}

template <class T>
void ImageNormaliser::run_as(std::span<const std::uint8_t> images, const FeatureMap& map) const {
  const std::int64_t pixels = map.shape.pixels();
  const std::int64_t lanes = map.lanes();
  const std::int64_t padded = map.padded_channels();
  const std::int64_t count = static_cast<std::int64_t>(images.size()) / map.shape.elements();
  T* const values = map.as<T>();
#pragma omp parallel for num_threads(threads_)
  for (std::int64_t image = 0; image < count; ++image) {
    for (std::int64_t channel = 0; channel < padded; ++channel) {
      T* to = values + (image * padded + channel / lanes * lanes) * pixels + channel % lanes;
      if (channel >= map.shape.channels) {
        for (std::int64_t pixel = 0; pixel < pixels; ++pixel) store(0, to[pixel * lanes]);
        continue;
      }
      const std::uint8_t* from = images.data() + (image * map.shape.channels + channel) * pixels;
      const float* table = table_.data() + channel * 256;
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
        store(table[from[pixel]], to[pixel * lanes]);
    }
  }
}

}  // namespace lockstep::backend::cpu
