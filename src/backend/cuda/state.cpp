// SPDX-License-Identifier: BSD-3-Clause
#include "state.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "../parameters.hpp"
#include "context.hpp"
#include "launch.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {

using core::device_buffer;

namespace {

bool is_convolution(const graph::Graph& graph, const graph::Parameter& parameter) {
  return graph.node(parameter.node).operation.is<graph::Convolution>();
}

bool reads_images(const graph::Graph& graph, const graph::Parameter& parameter) {
  const graph::Node& from = graph.node(graph.node(parameter.node).inputs[0]);
  return from.operation.is<graph::Input>();
}

/// Returns the bytes of a copy of a tensor, including padding; 0 if operations access the flat
/// buffer.
std::size_t copy_bytes(const kernels::NativeParameter& parameter,
                       const kernels::NativeTensor& tensor, core::DataType flat_type) {
  if (tensor.type == flat_type && tensor.padding == 0) return 0;
  const std::int64_t rows = parameter.elements / parameter.channels;
  const std::int64_t elements = rows * (parameter.channels + tensor.padding);
  return aligned(static_cast<std::size_t>(elements) * core::size_of(tensor.type));
}

void fetch_floats(const core::Buffer& from, std::span<float> to) {
  check_cuda(cudaMemcpy(to.data(), from.data(), to.size_bytes(), cudaMemcpyDeviceToHost),
             "copying the replica's values to the host");
}

}  // namespace

std::int64_t padded_image_channels(std::int64_t channels, core::DataType element) {
  const auto whole = static_cast<std::int64_t>(16 / core::size_of(element));
  return (channels + whole - 1) / whole * whole;
}

Segments::Segments(const std::vector<kernels::NativeParameter>& parameters,
                   const std::vector<std::int64_t>& cuts)
    : segments_(kernels::make_segments(parameters, cuts)),
      device_(device_buffer(segments_.size() * sizeof(kernels::Segment), "a table of parameters")) {
  core::copy_to_device(device_.data(), std::as_bytes(std::span(segments_)),
                       "copying a table of parameters");
}

kernels::SegmentTable Segments::all() const {
  return {reinterpret_cast<const kernels::Segment*>(device_.data()), std::ssize(segments_)};
}

kernels::SegmentTable Segments::part(std::size_t begin, std::size_t end) const {
  return kernels::part_of(all(), segments_, static_cast<std::int64_t>(begin),
                          static_cast<std::int64_t>(end));
}

std::vector<kernels::NativeParameter> native_layout(const graph::Graph& graph,
                                                    core::DataType element) {
  std::vector<kernels::NativeParameter> all;
  const std::vector<optim::ParameterRange> ranges = parameter_ranges(graph);
  for (const graph::Parameter& parameter : graph.parameters()) {
    kernels::NativeParameter native;
    const auto range =
        std::ranges::lower_bound(ranges, parameter.offset, {}, &optim::ParameterRange::begin);
    native.position = static_cast<std::int32_t>(range - ranges.begin());
    native.flat = static_cast<std::int64_t>(parameter.offset);
    native.elements = static_cast<std::int64_t>(parameter.elements);
    if (is_convolution(graph, parameter)) {
      native.weight.type = element;
      if (parameter.shape.size() == 4) {  // the gradient of a bias is a float32 sum
        native.gradient.type = element;
        native.channels = parameter.shape[1];
        if (reads_images(graph, parameter)) {
          const std::int64_t padding =
              padded_image_channels(native.channels, element) - native.channels;
          native.weight.padding = native.gradient.padding = static_cast<std::int32_t>(padding);
        }
      }
    }
    all.push_back(native);
  }
  return all;
}

NativeCopies::NativeCopies(const graph::Graph& graph, core::DataType element, Member tensor,
                           std::byte* flat, core::DataType flat_type)
    : parameters_(native_layout(graph, element)),
      tensor_(tensor),
      flat_(flat),
      flat_type_(flat_type),
      memory_(device_buffer(bytes(graph, element, tensor, flat_type), "copies of parameters")) {
  std::size_t offset = 0;
  std::vector<kernels::NativeParameter> copied;
  for (auto& parameter : parameters_) {
    const std::size_t size = copy_bytes(parameter, parameter.*tensor, flat_type);
    if (size == 0) continue;
    (parameter.*tensor).data = memory_.data() + offset;
    offset += size;
    copied.push_back(parameter);
  }
  segments_ = Segments(copied, {});
}

std::size_t NativeCopies::bytes(const graph::Graph& graph, core::DataType element, Member tensor,
                                core::DataType flat_type) {
  std::size_t bytes = 0;
  for (const auto& parameter : native_layout(graph, element))
    bytes += copy_bytes(parameter, parameter.*tensor, flat_type);
  return bytes;
}

kernels::NativeTensor NativeCopies::native(std::size_t parameter) const {
  const kernels::NativeTensor& copy = parameters_[parameter].*tensor_;
  return copy.data != nullptr ? copy : flat(parameter);
}

kernels::NativeTensor NativeCopies::flat(std::size_t parameter) const {
  const auto first = static_cast<std::size_t>(parameters_[parameter].flat);
  return {.data = flat_ + first * core::size_of(flat_type_), .type = flat_type_};
}

void NativeCopies::refresh(cudaStream_t stream) const {
  launch(stream, kernels::RefreshWeights{segments_.all(), reinterpret_cast<const float*>(flat_)});
}

void NativeCopies::flush(cudaStream_t stream, std::size_t begin, std::size_t end) const {
  const kernels::SegmentTable table = segments_.part(begin, end);
  with_type(flat_type_, [&](auto zero) {
    using W = decltype(zero);
    launch(stream, kernels::FlushGradients<W>{table, reinterpret_cast<W*>(flat_)});
  });
}

CudaState::CudaState(const graph::Graph& graph, optim::Kind optimiser, core::Buffer gradients,
                     cudaStream_t stream)
    : graph_(graph),
      stream_(stream),
      parameters_(device_buffer(graph.parameter_elements() * sizeof(float), "parameters")),
      momentum_(device_buffer(graph.parameter_elements() * sizeof(float), "momentum")),
      statistics_(device_buffer(graph.statistic_elements() * sizeof(float), "statistics")),
      gradients_(std::move(gradients)) {
  if (optimiser == optim::Kind::adamw)
    second_moment_ = device_buffer(elements() * sizeof(float), "second moments");
}

CudaState& CudaState::of(const ModelState& state) {
  core::check(state.device != nullptr, "a plan of the GPU backend has a state of this backend");
  return *static_cast<CudaState*>(state.device.get());
}

std::shared_ptr<const NativeCopies> CudaState::native_weights(core::DataType element) {
  std::weak_ptr<const NativeCopies>& known = native_[element];
  if (auto weights = known.lock()) return weights;
  auto weights =
      std::make_shared<const NativeCopies>(graph_, element, &kernels::NativeParameter::weight,
                                           parameters_.data(), core::DataType::float32);
  weights->refresh(stream_);
  known = weights;
  return weights;
}

std::vector<float> CudaState::reordered(std::span<const float> flat, Order order) const {
  std::vector<float> result(flat.begin(), flat.end());
  for (const graph::Parameter& parameter : graph_.parameters()) {
    if (parameter.shape.size() != 4 || !is_convolution(graph_, parameter)) continue;
    const auto filters = static_cast<std::size_t>(parameter.shape[0]);
    const auto channels = static_cast<std::size_t>(parameter.shape[1]);
    const auto window = static_cast<std::size_t>(parameter.shape[2] * parameter.shape[3]);
    if (window == 1) continue;
    for (std::size_t k = 0; k < filters; ++k) {
      const std::size_t base = parameter.offset + k * channels * window;
      for (std::size_t c = 0; c < channels; ++c) {
        for (std::size_t rs = 0; rs < window; ++rs) {
          const std::size_t kcrs = base + c * window + rs;
          const std::size_t krsc = base + rs * channels + c;
          if (order == Order::host_to_device) {
            result[krsc] = flat[kcrs];
          } else {
            result[kcrs] = flat[krsc];
          }
        }
      }
    }
  }
  return result;
}

void CudaState::fetch(ModelState& host, StatePart part) const {
  check_cuda(cudaStreamSynchronize(stream_), "a training step");
  const auto fetch_flat = [&](const core::Buffer& from, const core::Buffer& to) {
    std::vector<float> device(elements());
    fetch_floats(from, device);
    std::ranges::copy(reordered(device, Order::device_to_host), to.as<float>().begin());
  };
  fetch_floats(statistics_, host.statistics.as<float>());
  if (part == StatePart::statistics) return;
  fetch_flat(parameters_, host.parameters);
  fetch_flat(momentum_, host.momentum);
  if (second_moment_.bytes() > 0) fetch_flat(second_moment_, host.second_moment);
  fetch_gradients(host.gradients);
}

void CudaState::fetch_gradients(const core::Buffer& to) const {
  if (const auto native = native_gradients_.lock()) {
    native->flush(stream_, 0, elements());
    check_cuda(cudaStreamSynchronize(stream_), "converting gradients");
  }
  std::vector<std::byte> raw(elements() * core::size_of(gradient_type_));
  check_cuda(cudaMemcpy(raw.data(), gradients_.data(), raw.size(), cudaMemcpyDeviceToHost),
             "copying gradients to the host");
  std::vector<float> values(elements());
  with_type(gradient_type_, [&](auto zero) {
    const auto* const from = reinterpret_cast<const decltype(zero)*>(raw.data());
    std::transform(from, from + values.size(), values.begin(),
                   [](auto value) { return kernels::widen(value); });
  });
  std::ranges::copy(reordered(values, Order::device_to_host), to.as<float>().begin());
}

std::uint64_t CudaState::parameter_hash() const {
  check_cuda(cudaStreamSynchronize(stream_), "a training step");
  std::vector<float> values(elements());
  fetch_floats(parameters_, values);
  return backend::parameter_hash(values);
}

void CudaState::store(const ModelState& host, StatePart part) {
  check_cuda(cudaStreamSynchronize(stream_), "a training step");
  const auto store_floats = [&](std::span<const float> from, const core::Buffer& to) {
    core::copy_to_device(to.data(), std::as_bytes(from), "copying the replica's values to the GPU");
  };
  const auto store_flat = [&](const core::Buffer& from, const core::Buffer& to) {
    store_floats(reordered(from.as<float>(), Order::host_to_device), to);
  };
  store_floats(host.statistics.as<float>(), statistics_);
  if (part == StatePart::statistics) return;
  store_flat(host.momentum, momentum_);
  if (second_moment_.bytes() > 0) store_flat(host.second_moment, second_moment_);
  store_flat(host.parameters, parameters_);
  for (const auto& [type, known] : native_) {
    if (const auto weights = known.lock()) weights->refresh(stream_);
  }
}

}  // namespace lockstep::backend::cuda
