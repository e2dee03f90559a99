// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>

#include "dnn_graph.hpp"
#include "lockstep/core/image.hpp"
#include "lockstep/graph/graph.hpp"

namespace lockstep::backend::cuda {

/// Sizes of a convolution with a square kernel. Channel counts include the padding that images have
/// in memory.
struct ConvolutionShape {
  std::int64_t images = 0;
  std::int64_t in_channels = 0, in_height = 0, in_width = 0;
  std::int64_t out_channels = 0;
  std::int64_t kernel = 0, stride = 1, padding = 0;

  std::int64_t out_height() const { return (in_height + 2 * padding - kernel) / stride + 1; }
  std::int64_t out_width() const { return (in_width + 2 * padding - kernel) / stride + 1; }
};

/// Returns the sizes of a convolution. `input`: its channels include the padding in memory.
ConvolutionShape make_convolution_shape(const graph::Convolution& operation, std::int64_t images,
                                        const core::ImageShape& input, std::int64_t out_channels);

/// Uids of the tensors. All have the activation data type of the graph's precision, except the
/// sums, which are float32.
namespace convolution_tensor {
inline constexpr std::int64_t x = 1;         ///< (images, in_height, in_width, in_channels)
inline constexpr std::int64_t weights = 2;   ///< (out_channels, kernel, kernel, in_channels)
inline constexpr std::int64_t bias = 3;      ///< (out_channels)
inline constexpr std::int64_t y = 4;         ///< (images, out_height, out_width, out_channels)
inline constexpr std::int64_t dy = 5;        ///< as y
inline constexpr std::int64_t dx = 6;        ///< as x
inline constexpr std::int64_t dweights = 7;  ///< as weights
inline constexpr std::int64_t sums = 8;      ///< (out_channels): sums of y over all pixels
inline constexpr std::int64_t squares = 9;   ///< (out_channels): sums of y y
}  // namespace convolution_tensor

enum class BiasVector { none, added };

/// Plans y = x * weights [+ bias]: x, weights[, bias] -> y. This function,
/// `convolution_backward_data` and `convolution_backward_weights` throw `Error` (usage) if cuDNN
/// has no engine for the graph on the target.
std::shared_ptr<const DnnGraph> convolution_forward(DnnPlanner& planner,
                                                    const ConvolutionShape& shape,
                                                    core::Precision precision,
                                                    BiasVector bias = BiasVector::none);

/// Plans a convolution that also computes the sums for the batch norm that follows: x, weights ->
/// y, sums, squares. If cuDNN supports two forms of the graph, the faster one is returned; if it
/// supports none, the result has a null graph and a reason. Outputs `sums` and `squares` must be
/// zeroed before each run, because some engines accumulate into them and others overwrite them.
PlannedGraph convolution_with_sums(DnnPlanner& planner, const ConvolutionShape& shape,
                                   core::Precision precision);

/// Plans the gradient of the input: dy, weights -> dx.
std::shared_ptr<const DnnGraph> convolution_backward_data(DnnPlanner& planner,
                                                          const ConvolutionShape& shape,
                                                          core::Precision precision);

/// Plans the gradient of the weights: dy, x -> dweights.
std::shared_ptr<const DnnGraph> convolution_backward_weights(DnnPlanner& planner,
                                                             const ConvolutionShape& shape,
                                                             core::Precision precision);

}  // namespace lockstep::backend::cuda
