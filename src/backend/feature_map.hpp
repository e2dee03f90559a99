// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lockstep/core/data_type.hpp"
#include "lockstep/core/image.hpp"

namespace lockstep::backend {

/// Memory layout of a feature map. All layouts have the form (block of images, block of channels,
/// pixel, image of the block, lane) with channel = block * lanes + lane; the channels are padded
/// with zeros to whole blocks. Except in `blocked32x32`, a block has one image. There, the last
/// block of images may have fewer than 32 and is as much smaller. The names in parentheses are
/// those of oneDNN, which would pad the last block.
enum class MapLayout {
  planar,         ///< nchw: one lane
  blocked8,       ///< nChw8c
  blocked16,      ///< nChw16c
  channels_last,  ///< nhwc: all channels are lanes of one block
  blocked32x32,   ///< NChw32n32c: 32 images and 32 channels
};

/// A batch of feature maps: shape, element type, layout and address. The plan owns the memory.
struct FeatureMap {
  std::int64_t images = 0;
  core::ImageShape shape;
  core::DataType type = core::DataType::float32;
  MapLayout layout = MapLayout::planar;
  std::byte* data = nullptr;

  /// Returns the number of channels per block. Inline, because inner loops call it.
  std::int64_t lanes() const {
    switch (layout) {
      case MapLayout::planar: return 1;
      case MapLayout::blocked8: return 8;
      case MapLayout::blocked16: return 16;
      case MapLayout::blocked32x32: return 32;
      case MapLayout::channels_last: break;
    }
    return shape.channels;
  }
  std::int64_t blocks() const { return (shape.channels + lanes() - 1) / lanes(); }
  std::int64_t padded_channels() const { return blocks() * lanes(); }
  std::int64_t images_per_block() const { return layout == MapLayout::blocked32x32 ? 32 : 1; }
  std::int64_t image_blocks() const {
    return (images + images_per_block() - 1) / images_per_block();
  }
  std::int64_t block_of(std::int64_t image) const { return image / images_per_block(); }
  std::int64_t images_in_block(std::int64_t image_block) const {
    return std::min(images_per_block(), images - image_block * images_per_block());
  }
  /// Returns the distance of consecutive pixels of one image in a block, in elements.
  std::int64_t pixel_stride(std::int64_t image_block) const {
    return images_in_block(image_block) * lanes();
  }
  /// Returns the number of elements of a block of images and any block of channels, which are
  /// contiguous.
  std::int64_t plane(std::int64_t image_block) const {
    return shape.pixels() * pixel_stride(image_block);
  }
  std::int64_t planes() const { return image_blocks() * blocks(); }
  /// Returns the index of the first lane of the first pixel of one image and block of channels.
  std::int64_t offset(std::int64_t image, std::int64_t block) const {
    const std::int64_t image_block = block_of(image);
    const std::int64_t before = image_block * images_per_block();
    return before * padded_channels() * shape.pixels() + block * plane(image_block) +
           (image - before) * lanes();
  }
  /// Returns the index of one value.
  std::int64_t index(std::int64_t image, std::int64_t channel, std::int64_t pixel) const {
    return offset(image, channel / lanes()) + pixel * pixel_stride(block_of(image)) +
           channel % lanes();
  }
  /// Returns the index of the first element of a plane; the planes of a block of images follow each
  /// other.
  std::int64_t plane_offset(std::int64_t image_block, std::int64_t block) const {
    return offset(image_block * images_per_block(), block);
  }
  /// Returns the number of elements, including padding.
  std::size_t elements() const {
    return static_cast<std::size_t>(images * padded_channels() * shape.pixels());
  }
  /// Returns the size of the memory. Kernels may read all images of a block, even if they do not
  /// exist, so there is memory after the elements of an incomplete block.
  std::size_t bytes() const {
    const std::int64_t missing = image_blocks() * images_per_block() - images;
    return (elements() + static_cast<std::size_t>(missing * lanes())) * core::size_of(type);
  }

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

}  // namespace lockstep::backend
