// SPDX-License-Identifier: BSD-3-Clause
// Copies of the values at the boundaries of a stage between feature maps and plain float32 arrays
// (images, channels, height, width) in host memory, through the workspace of the plan.

#include "plan.hpp"

namespace lockstep::backend::cuda {

namespace {

std::size_t plain_bytes(const FeatureMap& map) {
  return static_cast<std::size_t>(map.images * map.shape.elements()) * sizeof(float);
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
  copy_and_wait(plain, values.data(), values.size_bytes(), cudaMemcpyHostToDevice, stream);
  unflatten(stream, reinterpret_cast<const float*>(plain), map);
}

void read_values(const FeatureMap& map, std::span<float> values, std::byte* plain,
                 cudaStream_t stream) {
  check_size(values, map);
  flatten(stream, map, reinterpret_cast<float*>(plain));
  copy_and_wait(values.data(), plain, values.size_bytes(), cudaMemcpyDeviceToHost, stream);
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
