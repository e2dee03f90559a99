// SPDX-License-Identifier: BSD-3-Clause
#include "backend.hpp"
#include "context.hpp"
#include "kernels/elementwise.hpp"
#include "launch.hpp"

namespace lockstep::backend::cuda {
namespace {

/// Sums of flat gradients in GPU memory.
class CudaGradientSums final : public GradientSums {
 public:
  /// `stream`: that of the plans that write the gradients.
  CudaGradientSums(const core::GradientArray& gradients, cudaStream_t stream)
      : gradients_(gradients),
        stream_(stream),
        sums_(core::device_buffer(gradients.elements * sizeof(float), "sums of gradients")) {}

  void clear() override {
    if (sums_.bytes() == 0) return;
    core::check_cuda(cudaMemsetAsync(sums_.data(), 0, sums_.bytes(), stream_), "clearing sums");
  }

  void add_gradients() override {
    with_type(gradients_.type, [&](auto zero) {
      using W = decltype(zero);
      launch(stream_,
             kernels::AddGradientsToSums<W>{reinterpret_cast<const W*>(gradients_.data), sums(),
                                            static_cast<std::int64_t>(gradients_.elements)});
    });
  }

  void add_to_gradients(std::size_t first, std::size_t count) override {
    with_type(gradients_.type, [&](auto zero) {
      using W = decltype(zero);
      launch(stream_, kernels::AddSumsToGradients<W>{sums() + first,
                                                     reinterpret_cast<W*>(gradients_.data) + first,
                                                     static_cast<std::int64_t>(count)});
    });
  }

 private:
  float* sums() const { return sums_.as<float>().data(); }

  core::GradientArray gradients_;
  cudaStream_t stream_;
  core::Buffer sums_;
};

}  // namespace

std::unique_ptr<GradientSums> CudaBackend::make_gradient_sums(const ModelState& state,
                                                              core::DataType type) const {
  return std::make_unique<CudaGradientSums>(gradients(state, type), target().stream());
}

}  // namespace lockstep::backend::cuda
