#include "convolution.hpp"

#include "directions.hpp"
#include "geometry.hpp"
#include "tiles.hpp"

namespace lockstep::backend::cpu::amx {

using core::DataType;

std::string implementation_name(const Kernels& kernels) {
  return kernels.is_emulated() ? "amx 32 images (emulated)" : "amx 32 images";
}

bool supports(const ConvolutionSizes& sizes) {
  return (sizes.kernel == 1 || sizes.kernel == 3) && sizes.in_channels >= tile_rows &&
         sizes.out_channels >= tile_rows;
}

bool fits(const ConvolutionSizes& sizes, const FeatureMap& source, const FeatureMap& destination) {
  const auto has_type_and_layout = [](const FeatureMap& map) {
    return map.type == DataType::bfloat16 && map.layout == map_layout;
  };
  return supports(sizes) && has_type_and_layout(source) && has_type_and_layout(destination);
}

std::unique_ptr<ConvolutionDirection> make(Direction direction, const Resources& resources,
                                           const ConvolutionSizes& sizes, const FeatureMap& source,
                                           const FeatureMap& destination) {
  const std::int64_t taps = sizes.kernel * sizes.kernel;
  const std::int64_t sources = sizes.in_channels, destinations = sizes.out_channels;
  switch (direction) {
    case Direction::forward:
      return make_map_direction(resources, sizes, source, destination,
                                inputs_of_outputs(sizes, sizes.out_height, sizes.in_height),
                                inputs_of_outputs(sizes, sizes.out_width, sizes.in_width),
                                WeightMatrix{.row_stride = taps,
                                             .column_stride = sources * taps,
                                             .rows = sources,
                                             .columns = destinations,
                                             .taps = taps});
    case Direction::backward_data:
      return make_map_direction(resources, sizes, destination, source,
                                outputs_of_inputs(sizes, sizes.out_height, sizes.in_height),
                                outputs_of_inputs(sizes, sizes.out_width, sizes.in_width),
                                WeightMatrix{.row_stride = sources * taps,
                                             .column_stride = taps,
                                             .rows = destinations,
                                             .columns = sources,
                                             .taps = taps});
    case Direction::backward_weights: break;
  }
  return make_weights_direction(resources, sizes, source, destination);
}

}  // namespace lockstep::backend::cpu::amx
