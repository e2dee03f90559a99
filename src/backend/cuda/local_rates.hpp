// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/update.hpp"
#include "lockstep/optim/update.hpp"
#include "state.hpp"

namespace lockstep::backend::cuda {

/// The local learning rates of LARS in device memory.
class LocalRates {
 public:
  /// Successive parameters, and the flat elements [first, end) from the first to the last of them.
  struct Parameters {
    std::size_t index = 0;
    std::size_t count = 0;
    std::size_t first = 0;
    std::size_t end = 0;
  };

  LocalRates() = default;
  /// `segments`: those of the parameters of the graph.
  LocalRates(const graph::Graph& graph, const Segments& segments);

  /// Returns the parameters whose last elements are among `count` elements from index `first` on.
  Parameters complete(std::size_t first, std::size_t count) const;

  /// Computes the rates of `parameters`, whose segments are the table of `update`, in stream order.
  void compute(cudaStream_t stream, const Segments& segments, Parameters parameters,
               const kernels::UpdateArguments& update) const;

  const float* rates() const { return rates_.as<float>().data(); }

 private:
  std::vector<optim::ParameterRange> ranges_;
  core::Buffer table_;    ///< `kernels::ParameterSegments` by parameter
  core::Buffer squares_;  ///< `kernels::SegmentSquares` by segment
  core::Buffer rates_;    ///< by parameter
};

}  // namespace lockstep::backend::cuda
