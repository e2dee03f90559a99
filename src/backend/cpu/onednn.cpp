// SPDX-License-Identifier: BSD-3-Clause
#include "onednn.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::backend::cpu {

using dnnl::memory;
using tag = memory::format_tag;

namespace {

/// The layouts that oneDNN processes. Its NChw32n32c differs from `blocked32x32` if the last block
/// is incomplete.
constexpr std::array<std::pair<MapLayout, tag>, 4> onednn_layouts{
    {{MapLayout::planar, tag::nchw},
     {MapLayout::blocked8, tag::nChw8c},
     {MapLayout::blocked16, tag::nChw16c},
     {MapLayout::channels_last, tag::nhwc}}};

}  // namespace

memory::data_type to_onednn(core::DataType type) {
  switch (type) {
    case core::DataType::float32: return memory::data_type::f32;
    case core::DataType::bfloat16: return memory::data_type::bf16;
    case core::DataType::float16: return memory::data_type::f16;
  }
  core::check(false, "unknown data type");
  return memory::data_type::undef;
}

memory::desc describe(const FeatureMap& map) {
  const auto known =
      std::ranges::find(onednn_layouts, map.layout, &std::pair<MapLayout, tag>::first);
  core::check(known != onednn_layouts.end(), "oneDNN processes the layout");
  return {{map.images, map.shape.channels, map.shape.height, map.shape.width},
          to_onednn(map.type),
          known->second};
}

std::optional<MapLayout> layout_of(const memory::desc& description, std::int64_t images,
                                   core::ImageShape shape, core::DataType type) {
  for (const auto& layout : onednn_layouts) {
    if (describe({images, shape, type, layout.first, nullptr}) == description) return layout.first;
  }
  return std::nullopt;
}

memory::dims weight_dims(const ConvolutionSizes& s) {
  return {s.out_channels, s.in_channels, s.kernel, s.kernel};
}

dnnl::primitive_desc describe(const dnnl::engine& engine, Direction direction,
                              const ConvolutionSizes& sizes, const memory::desc& source,
                              const memory::desc& destination) {
  constexpr bool allow_empty = true;
  constexpr auto kind = dnnl::prop_kind::forward_training;
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  const memory::data_type type = destination.get_data_type();
#else
  const memory::data_type type = destination.data_type();
#endif
  const memory::desc weights(weight_dims(sizes), type, tag::any);
  const memory::desc weight_gradient(weight_dims(sizes), memory::data_type::f32, tag::any);
  memory::desc bias;  // zero descriptor if there is no bias
  if (sizes.has_bias) bias = memory::desc({sizes.out_channels}, memory::data_type::f32, tag::x);
  const memory::dims strides{sizes.stride, sizes.stride}, padding{sizes.padding, sizes.padding};
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);

#if DNNL_VERSION_MAJOR >= 3
  const dnnl::convolution_forward::primitive_desc forward(engine, kind, algorithm, source, weights,
                                                          bias, destination, strides, padding,
                                                          padding, attributes, allow_empty);
  if (direction == Direction::forward || !forward) return forward;
  if (direction == Direction::backward_data)
    return dnnl::convolution_backward_data::primitive_desc(engine, algorithm, source, weights,
                                                           destination, strides, padding, padding,
                                                           forward, attributes, allow_empty);
  return dnnl::convolution_backward_weights::primitive_desc(
      engine, algorithm, source, weight_gradient, bias, destination, strides, padding, padding,
      forward, attributes, allow_empty);
#else
  const dnnl::convolution_forward::primitive_desc forward(
      {kind, algorithm, source, weights, bias, destination, strides, padding, padding}, attributes,
      engine, allow_empty);
  if (direction == Direction::forward || !forward) return forward;
  if (direction == Direction::backward_data)
    return dnnl::convolution_backward_data::primitive_desc(
        {algorithm, source, weights, destination, strides, padding, padding}, attributes, engine,
        forward, allow_empty);
  return dnnl::convolution_backward_weights::primitive_desc(
      {algorithm, source, weight_gradient, bias, destination, strides, padding, padding},
      attributes, engine, forward, allow_empty);
#endif
}

bool is_reference_kernel(std::string_view implementation) {
  return implementation.starts_with("ref");
}

void execute(const dnnl::primitive& primitive, const dnnl::stream& stream,
             std::span<const dnnl_exec_arg_t> arguments) {
  const auto status = dnnl_primitive_execute(primitive.get(), stream.get(),
                                             static_cast<int>(arguments.size()), arguments.data());
  require_success(status, "a oneDNN primitive runs");
}

void require_success(dnnl_status_t status, const char* what) {
  if (status == dnnl_out_of_memory) {
    core::fail(core::ExitStatus::out_of_memory,
               "no memory left for the temporary memory of oneDNN; use a smaller batch");
  }
  core::check(status == dnnl_success, what);
}

std::function<void()> make_bfloat16_product(std::int64_t size) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const auto type = memory::data_type::bf16;
  const memory::desc source({size, size}, type, tag::ab);
  const memory::desc weights({size, size}, type, tag::any);  // layout chosen by the kernel
  const memory::desc destination({size, size}, memory::data_type::f32, tag::ab);
  try {
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(engine, source, weights, destination);
#else
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(source, weights, destination),
                                                   engine);
#endif
    if (is_reference_kernel(description.impl_info_str())) return {};
    const auto filled = [&](const memory::desc& of) {
      memory values(of, engine);
      std::memset(values.get_data_handle(), 0x3c, of.get_size());  // small values other than 0
      return values;
    };
    const std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SRC, filled(description.src_desc())},
        {DNNL_ARG_WEIGHTS, filled(description.weights_desc())},
        {DNNL_ARG_DST, filled(description.dst_desc())}};
    return
        [product = dnnl::matmul(description), stream = dnnl::stream(engine), arguments]() mutable {
          product.execute(stream, arguments);
          stream.wait();
        };
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return {};
    throw;
  }
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  const char* isa = "generic";
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41: isa = "sse4.1"; break;
    case dnnl::cpu_isa::avx: isa = "avx"; break;
    case dnnl::cpu_isa::avx2: isa = "avx2"; break;
    case dnnl::cpu_isa::avx2_vnni: isa = "avx2_vnni"; break;
    case dnnl::cpu_isa::avx512_core: isa = "avx512_core"; break;
    case dnnl::cpu_isa::avx512_core_vnni: isa = "avx512_core_vnni"; break;
    case dnnl::cpu_isa::avx512_core_bf16: isa = "avx512_core_bf16"; break;
    case dnnl::cpu_isa::avx512_core_amx: isa = "avx512_core_amx"; break;
    default: break;
  }
  return fmt::format("oneDNN {}.{}.{} ({})", version->major, version->minor, version->patch, isa);
}

}  // namespace lockstep::backend::cpu
