// SPDX-License-Identifier: BSD-3-Clause
#include "convolution.hpp"

#include <utility>

#include "directions.hpp"
#include "geometry.hpp"
#include "tiles.hpp"

namespace lockstep::backend::cpu::cells {

using core::DataType;

namespace {

constexpr std::int64_t fewest_channels = tile_rows;

bool uses_patches(const ConvolutionSizes& sizes) { return sizes.in_channels < fewest_channels; }

/// Returns the sizes of the 1x1 convolution of the patches. It has the same weights: the channels
/// of a patch are in the order in which the model stores them.
ConvolutionSizes sizes_with_patches(const ConvolutionSizes& sizes) {
  return {.images = sizes.images,
          .in_channels = sizes.in_channels * sizes.kernel * sizes.kernel,
          .in_height = sizes.out_height,
          .in_width = sizes.out_width,
          .out_channels = sizes.out_channels,
          .out_height = sizes.out_height,
          .out_width = sizes.out_width,
          .kernel = 1,
          .stride = 1,
          .padding = 0,
          .has_bias = sizes.has_bias};
}

/// Returns the weights whose rows are the input channels.
WeightMatrix forward_weights(const ConvolutionSizes& sizes) {
  const std::int64_t taps = sizes.kernel * sizes.kernel;
  return {.row_stride = taps,
          .column_stride = sizes.in_channels * taps,
          .rows = sizes.in_channels,
          .columns = sizes.out_channels,
          .kernel = sizes.kernel};
}
/// Returns the weights whose rows are the output channels.
WeightMatrix backward_weights(const ConvolutionSizes& sizes) {
  const std::int64_t taps = sizes.kernel * sizes.kernel;
  return {.row_stride = sizes.in_channels * taps,
          .column_stride = taps,
          .rows = sizes.out_channels,
          .columns = sizes.in_channels,
          .kernel = sizes.kernel};
}

/// Creates forward or backward weights; `source` has the channels of `sizes`.
std::unique_ptr<ConvolutionDirection> make_from_source(Direction direction,
                                                       const Resources& resources,
                                                       const ConvolutionSizes& sizes,
                                                       std::unique_ptr<CellRows> source,
                                                       const FeatureMap& destination) {
  if (direction == Direction::backward_weights)
    return make_weights_direction(resources, sizes, std::move(source), make_cell_rows(destination));
  return make_map_direction(resources, std::move(source), destination,
                            inputs_of_outputs(sizes, sizes.out_height, sizes.in_height),
                            inputs_of_outputs(sizes, sizes.out_width, sizes.in_width),
                            forward_weights(sizes));
}

}  // namespace

bool fits(const ConvolutionProblem& problem) {
  const auto& [direction, sizes, source, destination] = problem;
  const auto has_cells = [](const FeatureMap& map) {
    return map.layout == MapLayout::blocked32x32;
  };
  if (source.type != DataType::bfloat16 || destination.type != DataType::bfloat16 ||
      !has_cells(destination) || sizes.out_channels < fewest_channels)
    return false;
  if (uses_patches(sizes))
    return source.layout == MapLayout::planar && direction != Direction::backward_data;
  return has_cells(source) && (sizes.kernel == 1 || sizes.kernel == 3);
}

std::unique_ptr<ConvolutionDirection> make(const ConvolutionProblem& problem,
                                           const Resources& resources) {
  const auto& [direction, sizes, source, destination] = problem;
  if (uses_patches(sizes))
    return make_from_source(direction, resources, sizes_with_patches(sizes),
                            make_patch_rows(source, sizes, *resources.kernels), destination);
  if (direction != Direction::backward_data)
    return make_from_source(direction, resources, sizes, make_cell_rows(source), destination);
  return make_map_direction(resources, make_cell_rows(destination), source,
                            outputs_of_inputs(sizes, sizes.out_height, sizes.in_height),
                            outputs_of_inputs(sizes, sizes.out_width, sizes.in_width),
                            backward_weights(sizes));
}

bool winograd_fits(const ConvolutionProblem& problem) {
  const ConvolutionSizes& sizes = problem.sizes;
  return fits(problem) && !uses_patches(sizes) && sizes.kernel == 3 && sizes.stride == 1 &&
         sizes.padding == 1;
}

std::unique_ptr<ConvolutionDirection> make_winograd(const ConvolutionProblem& problem,
                                                    const Resources& resources) {
  const auto& [direction, sizes, source, destination] = problem;
  auto from_source = make_cell_rows(source);
  auto from_destination = make_cell_rows(destination);
  switch (direction) {
    case Direction::forward:
      return make_winograd_map_direction(resources, std::move(from_source), destination,
                                         forward_weights(sizes), false);
    case Direction::backward_data:
      return make_winograd_map_direction(resources, std::move(from_destination), source,
                                         backward_weights(sizes), true);
    case Direction::backward_weights: break;
  }
  return make_winograd_weights_direction(resources, sizes, std::move(from_source),
                                         std::move(from_destination));
}

}  // namespace lockstep::backend::cpu::cells
