// SPDX-License-Identifier: BSD-3-Clause
// Copies of the values at the boundaries of a stage between feature maps and plain float32 arrays
// (images, channels, height, width) in host memory, through the workspace of the plan.

#include "kernels/flatten.hpp"
#include "launch.hpp"
#include "plan.hpp"

namespace lockstep::backend::cuda {

using core::check_cuda;

namespace {

std::size_t plain_bytes(const FeatureMap& map) {
  return static_cast<std::size_t>(map.images * map.shape.elements()) * sizeof(float);
}

/// Returns whether the memory of the map is a plain float32 array.
bool is_plain(const FeatureMap& map) {
  return map.type == core::DataType::float32 && map.shape.pixels() == 1;
}

void check_size(std::span<const float> values, const FeatureMap& map) {
  core::check(values.size_bytes() == plain_bytes(map),
              "a boundary value has the size of its feature map");
}

void copy_and_wait(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                   cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, kind, stream), "copying a boundary value");
  check_cuda(cudaStreamSynchronize(stream), "copying a boundary value");
}

/// `plain`: device memory for the values in plain order.
void write_values(std::span<const float> values, const FeatureMap& map, std::byte* plain,
                  cudaStream_t stream) {
  check_size(values, map);
  std::byte* const to = is_plain(map) ? map.data : plain;
  copy_and_wait(to, values.data(), values.size_bytes(), cudaMemcpyHostToDevice, stream);
  if (is_plain(map)) return;
  with_type(map.type, [&](auto zero) {
    using T = decltype(zero);
    launch(stream, kernels::FlattenBackward<T>{reinterpret_cast<const float*>(plain), map.as<T>(),
                                               map.images, map.shape.pixels(), map.shape.channels});
  });
}

void read_values(const FeatureMap& map, std::span<float> values, std::byte* plain,
                 cudaStream_t stream) {
  check_size(values, map);
  if (!is_plain(map)) {
    with_type(map.type, [&](auto zero) {
      using T = decltype(zero);
      launch(stream,
             kernels::FlattenForward<T>{map.as<T>(), reinterpret_cast<float*>(plain), map.images,
                                        map.shape.pixels(), map.shape.channels});
    });
  }
  const std::byte* const from = is_plain(map) ? map.data : plain;
  copy_and_wait(values.data(), from, values.size_bytes(), cudaMemcpyDeviceToHost, stream);
}

}  // namespace

std::size_t boundary_bytes(const Blueprint& blueprint, const graph::Graph& graph) {
  std::size_t bytes = 0;
  if (!graph.boundary_inputs().empty()) bytes = plain_bytes(blueprint.boundary_input());
  if (!graph.boundary_outputs().empty())
    bytes = std::max(bytes, plain_bytes(blueprint.boundary_output()));
  return bytes;
}

void CudaPlan::set_boundary_input(std::span<const float> values) {
  write_values(values, blueprint_.boundary_input(), workspace_.data(), stream_);
}

void CudaPlan::boundary_output(std::span<float> values) const {
  read_values(blueprint_.boundary_output(), values, workspace_.data(), stream_);
}

void CudaPlan::set_output_gradient(std::span<const float> values) {
  write_values(values, blueprint_.boundary_output_gradient(), workspace_.data(), stream_);
}

void CudaPlan::input_gradient(std::span<float> values) const {
  read_values(blueprint_.boundary_input_gradient(), values, workspace_.data(), stream_);
}

}  // namespace lockstep::backend::cuda
