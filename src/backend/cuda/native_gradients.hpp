// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "state.hpp"

namespace lockstep::backend::cuda {

/// Gradients in the data types and layouts in which operations write them, and their conversion to
/// the flat buffer. If type and layout are the same, operations write to the flat buffer directly.
class NativeGradients {
 public:
  /// `flat`: the flat gradients, of type `flat_type`.
  NativeGradients(const graph::Graph& graph, core::DataType element, std::byte* flat,
                  core::DataType flat_type);

  /// Returns the tensor to which the operation writes the gradient of a parameter.
  const kernels::NativeTensor& native(std::size_t parameter) const { return native_[parameter]; }
  /// Returns the gradient of a parameter in the flat buffer.
  const kernels::NativeTensor& flat(std::size_t parameter) const { return flat_[parameter]; }

  /// Converts the gradients of the flat elements [begin, end) to the flat buffer, in stream order.
  /// `begin` and `end` must be boundaries between parameters.
  void flush(cudaStream_t stream, std::size_t begin, std::size_t end) const;

  static std::size_t bytes(const graph::Graph& graph, core::DataType element,
                           core::DataType flat_type);

 private:
  std::byte* gradients_;  ///< flat buffer
  core::DataType flat_type_;
  std::vector<kernels::NativeTensor> native_, flat_;
  core::Buffer memory_;
  Segments segments_;
};

}  // namespace lockstep::backend::cuda
