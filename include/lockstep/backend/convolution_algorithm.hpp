// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>

#include "lockstep/core/named_value.hpp"

namespace lockstep::backend {

/// Algorithm of convolutions on CPUs. `automatic` chooses one for each convolution and direction.
/// Any other algorithm is used for every convolution that it supports. For the rest,
/// `winograd_int16` and `winograd_bf16` use the direct algorithm with the bfloat16 instructions, if
/// it is supported; otherwise oneDNN's direct kernels (`direct`) are used.
enum class ConvolutionAlgorithm {
  automatic,
  direct,
  winograd,
  winograd_int16,
  winograd_bf16,
  amx,
  avx512_bf16
};
std::span<const core::NamedValue<ConvolutionAlgorithm>> named_values(ConvolutionAlgorithm);

}  // namespace lockstep::backend
