#pragma once

#include <cstdint>
#include <memory>

#include "dnn_graph.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/graph/graph.hpp"

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

/// `input`: with the channels that are in memory.
ConvolutionShape make_convolution_shape(const graph::Convolution& operation, std::int64_t images,
                                        const core::ImageShape& input, std::int64_t out_channels);

/// Uids of the tensors. All have the type of activations at the graph's precision, but for the
/// sums: float32.
namespace convolution_tensor {
inline constexpr std::int64_t x = 1;         ///< (images, in_height, in_width, in_channels)
inline constexpr std::int64_t weights = 2;   ///< (out_channels, kernel, kernel, in_channels)
inline constexpr std::int64_t bias = 3;      ///< (out_channels)
inline constexpr std::int64_t y = 4;         ///< (images, out_height, out_width, out_channels)
inline constexpr std::int64_t dy = 5;        ///< as y
inline constexpr std::int64_t dx = 6;        ///< as x
inline constexpr std::int64_t dweights = 7;  ///< as weights
inline constexpr std::int64_t scale = 8;     ///< (in_channels): what is convolved is
inline constexpr std::int64_t offset = 9;    ///< (in_channels): relu(scale x + offset)
inline constexpr std::int64_t sums = 10;     ///< (out_channels): of y over all pixels
inline constexpr std::int64_t squares = 11;  ///< (out_channels): of y y
}  // namespace convolution_tensor

enum class BiasVector { none, added };

/// y = x * weights [+ bias]: x, weights[, bias] -> y. All three throw `Error` (usage) where the
/// target has no engine for it.
std::shared_ptr<const DnnGraph> convolution_forward(DnnPlanner& planner,
                                                    const ConvolutionShape& shape,
                                                    core::Precision precision,
                                                    BiasVector bias = BiasVector::none);

/// What a convolution reads: x, or what batch norm and ReLU make of it: relu(scale x + offset).
enum class ConvolutionInput { plain, normalised };

/// The same with the sums that batch norm asks of y: x[, scale, offset], weights -> y, sums,
/// squares. A refusal where the target has no such kernel; of two kinds the faster one. The sums
/// are added to what is in memory or overwrite it: it must be 0 before.
PlannedGraph convolution_with_sums(DnnPlanner& planner, const ConvolutionShape& shape,
                                   core::Precision precision, ConvolutionInput input);

/// Gradient of the weights where x was normalised while it was read: dy, x, scale, offset ->
/// dweights. A refusal where the target has no such kernel.
PlannedGraph convolution_backward_weights_of_normalised(DnnPlanner& planner,
                                                        const ConvolutionShape& shape,
                                                        core::Precision precision);

/// Gradient of the input: dy, weights -> dx.
std::shared_ptr<const DnnGraph> convolution_backward_data(DnnPlanner& planner,
                                                          const ConvolutionShape& shape,
                                                          core::Precision precision);

/// Gradient of the weights: dy, x -> dweights.
std::shared_ptr<const DnnGraph> convolution_backward_weights(DnnPlanner& planner,
                                                             const ConvolutionShape& shape,
                                                             core::Precision precision);

}  // namespace lockstep::backend::cuda
