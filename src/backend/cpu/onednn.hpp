// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "convolution_direction.hpp"

// The interface to those parts of oneDNN that differ between versions: 2.x first describes an
// operation and then creates a primitive descriptor, 3.x does both at once. All other code in this
// directory uses only what both versions have in common.

namespace lockstep::backend::cpu {

dnnl::memory::data_type to_onednn(core::DataType type);
dnnl::memory::desc describe(const FeatureMap& map);

/// Returns the `MapLayout` that is equal to the layout of `description`; nothing if there is none.
std::optional<MapLayout> layout_of(const dnnl::memory::desc& description, std::int64_t images,
                                   core::ImageShape shape, core::DataType type);

dnnl::memory::dims weight_dims(const ConvolutionSizes& sizes);

/// Returns an empty description (operator bool is false) if this processor or this version of
/// oneDNN has no such kernel. The element type is that of the maps; weight gradients and biases are
/// float32. oneDNN chooses the layout of the weights.
dnnl::primitive_desc describe(const dnnl::engine& engine, Direction direction,
                              const ConvolutionSizes& sizes, const dnnl::memory::desc& source,
                              const dnnl::memory::desc& destination);

/// Returns true for the kernels that oneDNN has for what its others do not support; they are slower
/// by a factor of hundreds. `implementation`: the text of `impl_info_str`.
bool is_reference_kernel(std::string_view implementation);

/// Fails with status 4 if oneDNN ran out of memory; otherwise checks that the call succeeded.
/// `what`: the text of `core::check`.
void require_success(dnnl_status_t status, const char* what);

/// Executes a primitive with arguments that were prepared once (`dnnl::primitive::execute` creates
/// a vector in every call).
void execute(const dnnl::primitive& primitive, const dnnl::stream& stream,
             std::span<const dnnl_exec_arg_t> arguments);

/// Creates a matrix product of `size` x `size` matrices of bfloat16 values with float32
/// accumulation. Returns an empty function if this processor or this version of oneDNN has no
/// optimised kernel for it.
std::function<void()> make_bfloat16_product(std::int64_t size);

/// Returns the version of oneDNN and the instruction set that it uses: "oneDNN 2.6.3 (avx2)".
std::string onednn_version();

}  // namespace lockstep::backend::cpu
