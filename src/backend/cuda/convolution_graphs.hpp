#pragma once

#include <cstdint>
#include <memory>

#include "dnn_graph.hpp"

namespace lockstep::backend::cuda {

/// Sizes of a convolution with a square kernel. Channels are those in memory: images have padded
/// ones.
struct ConvolutionShape {
  std::int64_t images = 0;
  std::int64_t in_channels = 0, in_height = 0, in_width = 0;
  std::int64_t out_channels = 0;
  std::int64_t kernel = 0, stride = 1, padding = 0;

  std::int64_t out_height() const { return (in_height + 2 * padding - kernel) / stride + 1; }
  std::int64_t out_width() const { return (in_width + 2 * padding - kernel) / stride + 1; }
};

/// Uids of the tensors. All have the type of activations at the graph's precision.
namespace convolution_tensor {
inline constexpr std::int64_t x = 1;         ///< (images, in_height, in_width, in_channels)
inline constexpr std::int64_t weights = 2;   ///< (out_channels, kernel, kernel, in_channels)
inline constexpr std::int64_t bias = 3;      ///< (out_channels)
inline constexpr std::int64_t y = 4;         ///< (images, out_height, out_width, out_channels)
inline constexpr std::int64_t dy = 5;        ///< as y
inline constexpr std::int64_t dx = 6;        ///< as x
inline constexpr std::int64_t dweights = 7;  ///< as weights
}  // namespace convolution_tensor

enum class BiasVector { none, added };

/// y = x * weights [+ bias]: x, weights[, bias] -> y. All three throw `Error` (usage) where the
/// target has no engine for it.
std::shared_ptr<const DnnGraph> convolution_forward(DnnPlanner& planner,
                                                    const ConvolutionShape& shape,
                                                    core::Precision precision,
                                                    BiasVector bias = BiasVector::none);

/// Gradient of the input: dy, weights -> dx.
std::shared_ptr<const DnnGraph> convolution_backward_data(DnnPlanner& planner,
                                                          const ConvolutionShape& shape,
                                                          core::Precision precision);

/// Gradient of the weights: dy, x -> dweights.
std::shared_ptr<const DnnGraph> convolution_backward_weights(DnnPlanner& planner,
                                                             const ConvolutionShape& shape,
                                                             core::Precision precision);

}  // namespace lockstep::backend::cuda
