#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "../feature_map.hpp"
#include "lockstep/core/data_type.hpp"

// The one place that knows oneDNN's versions: 2.x describes an operation first and then asks for a
// primitive, 3.x does both at once. Everything else in this folder uses what both have in common.

namespace lockstep::backend::cpu {

/// Sizes of one convolution with square kernels, batch included.
struct ConvolutionSizes {
  std::int64_t images = 0;
  std::int64_t in_channels = 0, in_height = 0, in_width = 0;
  std::int64_t out_channels = 0, out_height = 0, out_width = 0;
  std::int64_t kernel = 0, stride = 0, padding = 0;
  bool has_bias = false;
};

/// Element type and layout of the two sides of a convolution; weights are always in the layout that
/// oneDNN likes best.
struct ConvolutionMaps {
  dnnl::memory::desc source;
  dnnl::memory::desc destination;
};

dnnl::memory::data_type to_onednn(core::DataType type);
dnnl::memory::desc describe(const FeatureMap& map);

/// The layout of a description that oneDNN has chosen, where it is one of ours.
std::optional<MapLayout> layout_of(const dnnl::memory::desc& description, std::int64_t images,
                                   core::ImageShape shape, core::DataType type);

dnnl::memory::dims source_dims(const ConvolutionSizes& sizes);
dnnl::memory::dims destination_dims(const ConvolutionSizes& sizes);
dnnl::memory::dims weight_dims(const ConvolutionSizes& sizes);

using ForwardDescription = dnnl::convolution_forward::primitive_desc;
using BackwardDataDescription = dnnl::convolution_backward_data::primitive_desc;
using BackwardWeightsDescription = dnnl::convolution_backward_weights::primitive_desc;

/// Each returns an empty description (operator bool is false) where this processor or this oneDNN
/// has no such kernel. The element type is that of `maps`; weight gradients and biases are float32.
ForwardDescription describe_forward(const dnnl::engine& engine, const ConvolutionSizes& sizes,
                                    const ConvolutionMaps& maps);
BackwardDataDescription describe_backward_data(const dnnl::engine& engine,
                                               const ConvolutionSizes& sizes,
                                               const ConvolutionMaps& maps,
                                               const ForwardDescription& forward);
BackwardWeightsDescription describe_backward_weights(const dnnl::engine& engine,
                                                     const ConvolutionSizes& sizes,
                                                     const ConvolutionMaps& maps,
                                                     const ForwardDescription& forward);

/// Runs a primitive with arguments prepared once (dnnl.hpp's own `execute` makes a vector in every
/// call).
void execute(const dnnl::primitive& primitive, const dnnl::stream& stream,
             std::span<const dnnl_exec_arg_t> arguments);

/// A matrix product of `size` x `size` x `size` bfloat16 values with float32 sums. Returns an empty
/// function if this processor or this oneDNN has no optimised kernel for it.
std::function<void()> make_bfloat16_product(std::int64_t size);

/// "oneDNN 2.6.3 (avx2)": version and the instruction set its kernels use here.
std::string onednn_version();

}  // namespace lockstep::backend::cpu
