// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/segments.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/core/cuda.hpp"
#include "lockstep/graph/graph.hpp"

namespace lockstep::backend::cuda {

/// Returns the number of channels of images in device memory: `channels`, padded to a multiple of
/// 16 bytes per pixel, the unit in which tensor cores read.
std::int64_t padded_image_channels(std::int64_t channels, core::DataType element);

/// A table of segments, in host and device memory.
class Segments {
 public:
  Segments() = default;
  Segments(const std::vector<kernels::NativeParameter>& parameters,
           const std::vector<std::int64_t>& cuts);

  kernels::SegmentTable all() const;
  /// Returns the segments of the flat elements [begin, end). `begin` and `end` must be cuts or
  /// boundaries between parameters.
  kernels::SegmentTable part(std::size_t begin, std::size_t end) const;
  const std::vector<kernels::Segment>& host() const { return segments_; }

 private:
  std::vector<kernels::Segment> segments_;
  core::Buffer device_;
};

/// Returns one entry per parameter of the graph, with the layout in which operations read it.
/// Convolution parameters have the data type of the feature maps; the weights of a convolution that
/// reads the images have padded channels. All other parameters are float32 and are read from the
/// flat buffer. The addresses are not set.
std::vector<kernels::NativeParameter> native_layout(const graph::Graph& graph,
                                                    core::DataType element);

/// Weights or gradients in the data types and layouts in which operations access them, and their
/// conversion from or to the flat buffer. If type and layout are the same, operations access the
/// flat buffer directly.
class NativeCopies {
 public:
  using Member = kernels::NativeTensor kernels::NativeParameter::*;

  /// `tensor`: whether the weights or the gradients are copied. `flat`: the flat buffer of them, of
  /// type `flat_type`.
  NativeCopies(const graph::Graph& graph, core::DataType element, Member tensor, std::byte* flat,
               core::DataType flat_type);

  static std::size_t bytes(const graph::Graph& graph, core::DataType element, Member tensor,
                           core::DataType flat_type);

  /// Returns the layout of the parameters, with the addresses of the copies.
  const std::vector<kernels::NativeParameter>& parameters() const { return parameters_; }
  /// Returns the tensor of a parameter that operations access.
  kernels::NativeTensor native(std::size_t parameter) const;
  /// Returns the tensor of a parameter in the flat buffer.
  kernels::NativeTensor flat(std::size_t parameter) const;

  /// Converts the flat parameters to the copies, in stream order.
  void refresh(cudaStream_t stream) const;
  /// Converts the copies of the gradients of the flat elements [begin, end) to the flat buffer, in
  /// stream order. `begin` and `end` must be boundaries between parameters.
  void flush(cudaStream_t stream, std::size_t begin, std::size_t end) const;

 private:
  std::vector<kernels::NativeParameter> parameters_;
  Member tensor_;
  std::byte* flat_;
  core::DataType flat_type_;
  core::Buffer memory_;
  Segments segments_;  ///< of the copies
};

/// State of a replica on the GPU. The flat buffers have the layout of ModelState, except that
/// convolution weights (and their momentum and gradients) are in KRSC order.
class CudaState {
 public:
  CudaState(const graph::Graph& graph, optim::Kind optimiser, core::Buffer gradients,
            cudaStream_t stream);

  /// Returns the state in GPU memory. Throws `Error` (internal) if it was made for a CPU.
  static CudaState& of(const ModelState& state);

  float* parameters() const { return parameters_.as<float>().data(); }
  float* momentum() const { return momentum_.as<float>().data(); }
  float* second_moment() const { return second_moment_.as<float>().data(); }
  float* statistics() const { return statistics_.as<float>().data(); }
  std::byte* gradients() const { return gradients_.data(); }
  std::size_t elements() const { return graph_.parameter_elements(); }

  /// Sets the data type of the flat gradients; called by the training plan. `native`: the gradients
  /// that `fetch` converts to the flat buffer before it copies that buffer, as long as the object
  /// exists; null if the plan converts them in every step.
  void set_gradients(core::DataType type, std::weak_ptr<const NativeCopies> native) {
    gradient_type_ = type;
    native_gradients_ = std::move(native);
  }

  /// Returns the native weights in data type `element`. They are shared by all plans of that type
  /// and created when the first plan requests them.
  std::shared_ptr<const NativeCopies> native_weights(core::DataType element);

  /// See `Backend`. `fetch` and `store` wait for all work that is queued on the device.
  void fetch(ModelState& host, StatePart part) const;
  void store(const ModelState& host, StatePart part);
  std::uint64_t parameter_hash() const;

 private:
  enum class Order { host_to_device, device_to_host };
  std::vector<float> reordered(std::span<const float> flat, Order order) const;
  void fetch_gradients(const core::Buffer& to) const;

  graph::Graph graph_;
  cudaStream_t stream_;
  core::Buffer parameters_, momentum_, statistics_, gradients_;
  core::Buffer second_moment_;  ///< empty unless the optimiser is AdamW
  core::DataType gradient_type_ = core::DataType::float32;
  std::weak_ptr<const NativeCopies> native_gradients_;  ///< see `set_gradients`
  std::map<core::DataType, std::weak_ptr<const NativeCopies>> native_;
};

}  // namespace lockstep::backend::cuda
