// Instantiates the kernels on the flat buffers for the device.

#include "kernels/gradient_clipping.hpp"
#include "kernels/loss_scale.hpp"
#include "kernels/segments.hpp"
#include "kernels/sgd.hpp"
#include "launch.cuh"

namespace lockstep::backend::cuda {

using namespace kernels;

template void launch(cudaStream_t, const FlushGradients<float>&);
template void launch(cudaStream_t, const FlushGradients<core::BFloat16>&);
template void launch(cudaStream_t, const FlushGradients<Float16>&);

template void launch(cudaStream_t, const FiniteCheck<float>&);
template void launch(cudaStream_t, const FiniteCheck<core::BFloat16>&);
template void launch(cudaStream_t, const FiniteCheck<Float16>&);

template void launch(cudaStream_t, const GradientSquares<float>&);
template void launch(cudaStream_t, const GradientSquares<core::BFloat16>&);
template void launch(cudaStream_t, const GradientSquares<Float16>&);
template void launch(cudaStream_t, const ClippingFactor&);

template void launch(cudaStream_t, const SgdUpdate<float>&);
template void launch(cudaStream_t, const SgdUpdate<core::BFloat16>&);
template void launch(cudaStream_t, const SgdUpdate<Float16>&);

template void launch(cudaStream_t, const RefreshWeights&);
template void launch(cudaStream_t, const LossScaleUpdate&);

}  // namespace lockstep::backend::cuda
