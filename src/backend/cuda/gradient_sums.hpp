// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/cuda.hpp"

namespace lockstep::backend::cuda {

/// Sums of flat gradients in GPU memory.
class CudaGradientSums final : public GradientSums {
 public:
  /// `gradients`: must outlive the sums. `stream`: that of the plans that write them.
  CudaGradientSums(const core::GradientArray& gradients, cudaStream_t stream);

  void clear() override;
  void add_gradients() override;
  void add_to_gradients(std::size_t first, std::size_t count) override;

 private:
  float* sums() const { return sums_.as<float>().data(); }

  core::GradientArray gradients_;
  cudaStream_t stream_;
  core::Buffer sums_;
};

}  // namespace lockstep::backend::cuda
