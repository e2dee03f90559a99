// SPDX-License-Identifier: BSD-3-Clause
#include "native_gradients.hpp"

#include "context.hpp"
#include "kernels/segment_groups.hpp"
#include "launch.hpp"

namespace lockstep::backend::cuda {

namespace {

bool is_apart(const kernels::NativeParameter& parameter, core::DataType flat_type) {
  return parameter.gradient.type != flat_type || parameter.gradient.padding != 0;
}

std::size_t bytes_of(const kernels::NativeParameter& parameter, core::DataType flat_type) {
  if (!is_apart(parameter, flat_type)) return 0;
  return aligned(native_bytes(parameter, parameter.gradient));
}

}  // namespace

NativeGradients::NativeGradients(const graph::Graph& graph, core::DataType element, std::byte* flat,
                                 core::DataType flat_type)
    : gradients_(flat),
      flat_type_(flat_type),
      memory_(core::device_buffer(bytes(graph, element, flat_type), "gradients of weights")) {
  std::size_t offset = 0;
  std::vector<kernels::NativeParameter> apart;
  for (auto& parameter : native_layout(graph, element)) {
    const std::size_t position =
        static_cast<std::size_t>(parameter.flat) * core::size_of(flat_type);
    flat_.push_back({.data = flat + position, .type = flat_type});
    if (!is_apart(parameter, flat_type)) {
      native_.push_back(flat_.back());
      continue;
    }
    parameter.gradient.data = memory_.data() + offset;
    native_.push_back(parameter.gradient);
    offset += bytes_of(parameter, flat_type);
    apart.push_back(parameter);
  }
  if (!apart.empty()) segments_ = Segments(apart, {});
}

std::size_t NativeGradients::bytes(const graph::Graph& graph, core::DataType element,
                                   core::DataType flat_type) {
  std::size_t sum = 0;
  for (const auto& parameter : native_layout(graph, element)) sum += bytes_of(parameter, flat_type);
  return sum;
}

void NativeGradients::flush(cudaStream_t stream, std::size_t begin, std::size_t end) const {
  if (segments_.bytes() == 0) return;
  const kernels::SegmentTable table = segments_.part(begin, end);
  with_type(flat_type_, [&](auto zero) {
    using W = decltype(zero);
    launch(stream, kernels::FlushGradients<W>{table, reinterpret_cast<W*>(gradients_)});
  });
}

}  // namespace lockstep::backend::cuda
