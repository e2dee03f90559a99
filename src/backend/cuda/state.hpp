#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kernels/segments.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/core/cuda.hpp"

namespace lockstep::backend::cuda {

/// Channels of images in memory: whole 16 bytes per pixel, as the matrix units read them.
std::int64_t padded_image_channels(std::int64_t channels, core::DataType element);

/// A table of segments in host and device memory.
class Segments {
 public:
  Segments() = default;
  Segments(const std::vector<kernels::NativeParameter>& parameters,
           const std::vector<std::int64_t>& cuts);

  kernels::SegmentTable all() const;
  /// Flat elements [begin, end), whose ends were cuts or lie between parameters.
  kernels::SegmentTable part(std::size_t begin, std::size_t end) const;
  std::size_t bytes() const { return device_.bytes(); }

 private:
  std::vector<kernels::Segment> segments_;
  core::Buffer device_;
};

/// The weights of a network as its operations read them: convolutions' in the type of the maps with
/// padded channels where the images have them, all others where they stand in the flat buffer. One
/// entry per parameter of the graph, gradients still empty.
std::vector<kernels::NativeParameter> native_layout(const graph::Graph& graph,
                                                    core::DataType element);

/// Elements of a parameter's native tensors, padding included.
std::int64_t native_elements(const kernels::NativeParameter& parameter);

/// Memory for the native copies of weights in one type.
class NativeWeights {
 public:
  NativeWeights(const graph::Graph& graph, core::DataType element);

  static std::size_t bytes(const graph::Graph& graph, core::DataType element);
  const std::vector<kernels::NativeParameter>& parameters() const { return parameters_; }
  void refresh(cudaStream_t stream, const float* flat) const;

 private:
  std::vector<kernels::NativeParameter> parameters_;
  core::Buffer memory_;
  Segments segments_;
};

/// A replica's values on the GPU. Flat buffers as in ModelState, but convolutions' weights (and
/// their momentum and gradients) in the order KRSC.
class CudaState final : public DeviceState {
 public:
  CudaState(const graph::Graph& graph, core::Buffer gradients);

  float* parameters() const { return parameters_.as<float>().data(); }
  float* momentum() const { return momentum_.as<float>().data(); }
  float* statistics() const { return statistics_.as<float>().data(); }
  std::byte* gradients() const { return gradients_.data(); }
  std::size_t elements() const { return graph_.parameter_elements(); }

  /// As the plan that fills them says.
  void set_gradient_type(core::DataType type) { gradient_type_ = type; }

  /// Shared by all plans of that type; made when first asked for.
  std::shared_ptr<const NativeWeights> native_weights(cudaStream_t stream, core::DataType element);

  /// Between the host's copies in `state` and the device, after all queued work.
  void fetch(cudaStream_t stream, ModelState& state, StatePart part) const;
  void store(cudaStream_t stream, const ModelState& state, StatePart part);

 private:
  enum class Order { host_to_device, device_to_host };
  std::vector<float> reordered(std::span<const float> flat, Order order) const;
  void fetch_gradients(const core::Buffer& to) const;

  graph::Graph graph_;
  core::Buffer parameters_, momentum_, statistics_, gradients_;
  core::DataType gradient_type_ = core::DataType::float32;
  std::map<core::DataType, std::weak_ptr<const NativeWeights>> native_;
};

}  // namespace lockstep::backend::cuda
