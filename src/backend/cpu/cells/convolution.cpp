// SPDX-License-Identifier: BSD-3-Clause
#include "convolution.hpp"

#include "directions.hpp"
#include "tiles.hpp"

namespace lockstep::backend::cpu::cells {

using core::DataType;

namespace {

constexpr std::int64_t fewest_channels = tile_rows;

bool uses_patches(const ConvolutionSizes& sizes) { return sizes.in_channels < fewest_channels; }

/// Returns the sizes of the 1x1 convolution of the patches. It has the same weights: the channels
/// of a patch are in the order in which the model stores them.
ConvolutionSizes sizes_with_patches(ConvolutionSizes sizes) {
  sizes.in_channels *= sizes.kernel * sizes.kernel;
  sizes.in_height = sizes.out_height;
  sizes.in_width = sizes.out_width;
  sizes.kernel = sizes.stride = 1;
  sizes.padding = 0;
  return sizes;
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
  WeightMatrix weights = forward_weights(sizes);
  std::swap(weights.row_stride, weights.column_stride);
  std::swap(weights.rows, weights.columns);
  return weights;
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
  const auto& [direction, given, source, destination] = problem;
  if (direction == Direction::backward_data)
    return make_map_direction(resources, make_cell_rows(destination), source,
                              outputs_of_inputs(given, given.out_height, given.in_height),
                              outputs_of_inputs(given, given.out_width, given.in_width),
                              backward_weights(given));
  const ConvolutionSizes sizes = uses_patches(given) ? sizes_with_patches(given) : given;
  auto from = uses_patches(given) ? make_patch_rows(source, given, *resources.kernels)
                                  : make_cell_rows(source);
  if (direction == Direction::backward_weights)
    return make_weights_direction(resources, sizes, std::move(from), make_cell_rows(destination));
  return make_map_direction(resources, std::move(from), destination,
                            inputs_of_outputs(sizes, sizes.out_height, sizes.in_height),
                            inputs_of_outputs(sizes, sizes.out_width, sizes.in_width),
                            forward_weights(sizes));
}

bool winograd_fits(const ConvolutionProblem& problem, WinogradVariant variant) {
  const ConvolutionSizes& sizes = problem.sizes;
  const std::int64_t most_stride = variant == WinogradVariant::int16 ? 2 : 1;
  return fits(problem) && !uses_patches(sizes) && sizes.kernel == 3 &&
         sizes.stride <= most_stride && sizes.padding == 1;
}

std::unique_ptr<ConvolutionDirection> make_winograd(const ConvolutionProblem& problem,
                                                    const Resources& resources,
                                                    WinogradVariant variant) {
  const auto& [direction, sizes, source, destination] = problem;
  const bool is_int16 = variant == WinogradVariant::int16;
  auto from_source = make_cell_rows(source);
  auto from_destination = make_cell_rows(destination);
  if (direction == Direction::backward_weights)
    return (is_int16 ? make_int16_weights_direction : make_f2x2_weights_direction)(
        resources, sizes, std::move(from_source), std::move(from_destination));
  const bool is_forward = direction == Direction::forward;
  auto from = std::move(is_forward ? from_source : from_destination);
  const FeatureMap& to = is_forward ? destination : source;
  const WeightMatrix weights = is_forward ? forward_weights(sizes) : backward_weights(sizes);
  if (is_int16)
    return make_int16_map_direction(resources, direction, sizes, std::move(from), to, weights);
  return make_f2x2_map_direction(resources, std::move(from), to, weights, !is_forward);
}

}  // namespace lockstep::backend::cpu::cells
