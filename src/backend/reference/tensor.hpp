// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/core/shape.hpp"

namespace lockstep::backend::reference {

/// A batch of C x H x W feature maps in float64: NCHW, contiguous.
struct Tensor {
  std::int64_t batch = 0;  ///< images in use; at most the number that memory was allocated for
  core::ImageShape shape;
  std::vector<double> values;

  Tensor() = default;
  Tensor(std::int64_t images, core::ImageShape image_shape)
      : batch(images), shape(image_shape), values(images * image_shape.elements()) {}

  /// Returns row `y` of one channel of an image: `width` values.
  double* row(std::int64_t image, std::int64_t channel, std::int64_t y) {
    return values.data() + offset(image, channel, y);
  }
  const double* row(std::int64_t image, std::int64_t channel, std::int64_t y) const {
    return values.data() + offset(image, channel, y);
  }

  /// Returns all pixels of one channel of an image.
  std::span<double> plane(std::int64_t image, std::int64_t channel) {
    return {row(image, channel, 0), static_cast<std::size_t>(shape.pixels())};
  }
  std::span<const double> plane(std::int64_t image, std::int64_t channel) const {
    return {row(image, channel, 0), static_cast<std::size_t>(shape.pixels())};
  }

  /// Returns all values of the images in use.
  std::span<double> all() {
    return {values.data(), static_cast<std::size_t>(batch * shape.elements())};
  }
  std::span<const double> all() const {
    return {values.data(), static_cast<std::size_t>(batch * shape.elements())};
  }

 private:
  std::int64_t offset(std::int64_t image, std::int64_t channel, std::int64_t y) const {
    return ((image * shape.channels + channel) * shape.height + y) * shape.width;
  }
};

}  // namespace lockstep::backend::reference
