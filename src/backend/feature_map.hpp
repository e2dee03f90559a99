#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/core/data_type.hpp"
#include "lockstep/core/shape.hpp"

namespace lockstep::backend {

/// Memory layout of the channels of a feature map. All four layouts have the form (image, block,
/// pixel, lane) with channel = block * lanes + lane; the channels are padded with zeros to whole
/// blocks.
enum class MapLayout {
  planar,         ///< nchw: one lane
  blocked8,       ///< nChw8c
  blocked16,      ///< nChw16c
  channels_last,  ///< nhwc: all channels are lanes of one block
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
      case MapLayout::channels_last: break;
    }
    return shape.channels;
  }
  std::int64_t blocks() const { return (shape.channels + lanes() - 1) / lanes(); }
  std::int64_t padded_channels() const { return blocks() * lanes(); }
  /// Returns the number of elements of one (image, block).
  std::int64_t plane() const { return shape.pixels() * lanes(); }
  /// Returns the number of elements, including padding.
  std::size_t elements() const {
    return static_cast<std::size_t>(images * padded_channels() * shape.pixels());
  }
  std::size_t bytes() const { return elements() * core::size_of(type); }

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

}  // namespace lockstep::backend
