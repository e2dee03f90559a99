#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "lockstep/core/data_type.hpp"
#include "lockstep/core/shape.hpp"

namespace lockstep::backend::cpu {

/// How the channels of a feature map stand in memory. All four are one scheme: (image, block,
/// pixel, lane), where channel = block * lanes + lane; channels are padded with zeros to whole
/// blocks.
enum class MapLayout {
  planar,         ///< nchw: one lane
  blocked8,       ///< nChw8c
  blocked16,      ///< nChw16c
  channels_last,  ///< nhwc: all channels are lanes of one block
};

/// A batch of feature maps: shape, element type and place. The memory belongs to the plan.
struct FeatureMap {
  std::int64_t images = 0;
  core::ImageShape shape;
  core::DataType type = core::DataType::float32;
  MapLayout layout = MapLayout::planar;
  std::byte* data = nullptr;

  std::int64_t lanes() const;   ///< channels per block
  std::int64_t blocks() const;  ///< ceil(channels / lanes)
  std::int64_t padded_channels() const { return blocks() * lanes(); }
  std::int64_t plane() const {
    return shape.pixels() * lanes();
  }                              ///< elements of one (image, block)
  std::size_t elements() const;  ///< padding included
  std::size_t bytes() const { return elements() * core::size_of(type); }

  dnnl::memory::desc description() const;

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

/// The layout of a description that oneDNN has chosen, where it is one of ours.
std::optional<MapLayout> layout_of(const dnnl::memory::desc& description, std::int64_t images,
                                   core::ImageShape shape, core::DataType type);

/// How a kernel walks over one plane: `rows` rows of `width` elements, with coefficients per lane
/// repeated `repeat` times to fill a row. Rows are long enough for vector code to be efficient
/// whatever the layout.
struct RowTiling {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t repeat = 0;
};
RowTiling tile_rows(const FeatureMap& map);

}  // namespace lockstep::backend::cpu
