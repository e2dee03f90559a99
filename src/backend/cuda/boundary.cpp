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

}  // namespace

std::size_t boundary_bytes(const Blueprint& blueprint, const graph::Graph& graph) {
  std::size_t bytes = 0;
  if (!graph.boundary_inputs().empty()) bytes = plain_bytes(blueprint.boundary_input());
  if (!graph.boundary_outputs().empty())
    bytes = std::max(bytes, plain_bytes(blueprint.boundary_output()));
  return bytes;
}

void CudaPlan::write_values(std::span<const float> values, const FeatureMap& map) {
  check_size(values, map);
  check_cuda(cudaMemcpyAsync(workspace_.data(), values.data(), values.size_bytes(),
                             cudaMemcpyHostToDevice, stream_),
             "copying a boundary value");
  check_cuda(cudaStreamSynchronize(stream_), "copying a boundary value");
  unflatten(stream_, workspace_.as<float>().data(), map);
}

void CudaPlan::read_values(const FeatureMap& map, std::span<float> values) const {
  check_size(values, map);
  flatten(stream_, map, workspace_.as<float>().data());
  fetch(values.data(), workspace_.data(), values.size_bytes(), "copying a boundary value");
}

void CudaPlan::set_boundary_input(std::span<const float> values) {
  write_values(values, blueprint_.boundary_input());
}

void CudaPlan::boundary_output(std::span<float> values) const {
  read_values(blueprint_.boundary_output(), values);
}

void CudaPlan::set_output_gradient(std::span<const float> values) {
  write_values(values, blueprint_.boundary_output_gradient());
}

void CudaPlan::input_gradient(std::span<float> values) const {
  read_values(blueprint_.boundary_input_gradient(), values);
}

}  // namespace lockstep::backend::cuda
