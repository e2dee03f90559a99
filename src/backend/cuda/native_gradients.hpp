#pragma once

#include <vector>

#include "state.hpp"

namespace lockstep::backend::cuda {

/// Gradients as operations write them, and their way to the flat buffer that is summed over the
/// ranks. Where both are the same, the operations write to the flat buffer.
class NativeGradients {
 public:
  /// `flat`: the flat gradients, of `flat_type`.
  NativeGradients(const graph::Graph& graph, core::DataType element, std::byte* flat,
                  core::DataType flat_type);

  /// Where the operation writes the gradient of a parameter.
  void* of(std::size_t parameter) const { return places_[parameter]; }

  /// Brings what was written of the flat elements [begin, end) there.
  void flush(cudaStream_t stream, std::size_t begin, std::size_t end) const;

  static std::size_t bytes(const graph::Graph& graph, core::DataType element,
                           core::DataType flat_type);

 private:
  std::byte* flat_;
  core::DataType flat_type_;
  std::vector<void*> places_;
  core::Buffer memory_;
  Segments segments_;
};

}  // namespace lockstep::backend::cuda
