// SPDX-License-Identifier: BSD-3-Clause
#include "gradient_sums.hpp"

#include "context.hpp"
#include "kernels/gradient_sums.hpp"
#include "launch.hpp"

namespace lockstep::backend::cuda {

CudaGradientSums::CudaGradientSums(const core::GradientArray& gradients, cudaStream_t stream)
    : gradients_(gradients),
      stream_(stream),
      sums_(core::device_buffer(gradients.elements * sizeof(float), "sums of gradients")) {}

void CudaGradientSums::clear() {
  if (sums_.bytes() == 0) return;
  core::check_cuda(cudaMemsetAsync(sums_.data(), 0, sums_.bytes(), stream_), "clearing sums");
}

void CudaGradientSums::add_gradients() {
  with_type(gradients_.type, [&](auto zero) {
    using W = decltype(zero);
    launch(stream_,
           kernels::AddGradientsToSums<W>{reinterpret_cast<const W*>(gradients_.data), sums(),
                                          static_cast<std::int64_t>(gradients_.elements)});
  });
}

void CudaGradientSums::add_to_gradients(std::size_t first, std::size_t count) {
  with_type(gradients_.type, [&](auto zero) {
    using W = decltype(zero);
    launch(stream_, kernels::AddSumsToGradients<W>{sums() + first,
                                                   reinterpret_cast<W*>(gradients_.data) + first,
                                                   static_cast<std::int64_t>(count)});
  });
}

}  // namespace lockstep::backend::cuda
