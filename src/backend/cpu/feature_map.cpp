#include "feature_map.hpp"

#include <array>

#include "lockstep/core/error.hpp"
#include "onednn.hpp"

namespace lockstep::backend::cpu {

namespace {

constexpr std::array layouts{MapLayout::planar, MapLayout::blocked8, MapLayout::blocked16,
                             MapLayout::channels_last};

dnnl::memory::format_tag tag_of(MapLayout layout) {
  switch (layout) {
    case MapLayout::planar: return dnnl::memory::format_tag::nchw;
    case MapLayout::blocked8: return dnnl::memory::format_tag::nChw8c;
    case MapLayout::blocked16: return dnnl::memory::format_tag::nChw16c;
    case MapLayout::channels_last: return dnnl::memory::format_tag::nhwc;
  }
  core::check(false, "unknown layout");
  return dnnl::memory::format_tag::undef;
}

}  // namespace

std::int64_t FeatureMap::lanes() const {
  switch (layout) {
    case MapLayout::planar: return 1;
    case MapLayout::blocked8: return 8;
    case MapLayout::blocked16: return 16;
    case MapLayout::channels_last: return shape.channels;
  }
  core::check(false, "unknown layout");
  return 0;
}

std::int64_t FeatureMap::blocks() const { return (shape.channels + lanes() - 1) / lanes(); }

std::size_t FeatureMap::elements() const {
  return static_cast<std::size_t>(images * padded_channels() * shape.pixels());
}

dnnl::memory::desc FeatureMap::description() const {
  return {{images, shape.channels, shape.height, shape.width}, to_onednn(type), tag_of(layout)};
}

std::optional<MapLayout> layout_of(const dnnl::memory::desc& description, std::int64_t images,
                                   core::ImageShape shape, core::DataType type) {
  for (const MapLayout layout : layouts) {
    if (FeatureMap{images, shape, type, layout, nullptr}.description() == description)
      return layout;
  }
  return std::nullopt;
}

RowTiling tile_rows(const FeatureMap& map) {
  constexpr std::int64_t preferred_width = 128;
  const std::int64_t pixels = map.shape.pixels();
  std::int64_t repeat = 1;
  for (std::int64_t divisor = 1; divisor <= pixels && divisor * map.lanes() <= preferred_width;
       ++divisor) {
    if (pixels % divisor == 0) repeat = divisor;
  }
  return {pixels / repeat, repeat * map.lanes(), repeat};
}

}  // namespace lockstep::backend::cpu
