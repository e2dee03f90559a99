#include "feature_map.hpp"

#include "lockstep/core/error.hpp"

namespace lockstep::backend {

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

}  // namespace lockstep::backend
