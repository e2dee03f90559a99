// SPDX-License-Identifier: BSD-3-Clause
// Instantiates the kernels of batch norm and of sums per channel for the device.

#include "kernels/batch_norm.hpp"
#include "kernels/batch_norm_gradient.hpp"
#include "kernels/slabs.hpp"
#include "launch.cuh"

namespace lockstep::backend::cuda {

using namespace kernels;

template void launch(cudaStream_t, const BatchNormSums<float>&);
template void launch(cudaStream_t, const BatchNormSums<core::BFloat16>&);
template void launch(cudaStream_t, const BatchNormSums<Float16>&);

template void launch(cudaStream_t, const BatchNormTotals<float>&);
template void launch(cudaStream_t, const BatchNormTotals<core::BFloat16>&);
template void launch(cudaStream_t, const BatchNormTotals<Float16>&);

template void launch(cudaStream_t, const BatchNormStatistics<float>&);
template void launch(cudaStream_t, const BatchNormStatistics<core::BFloat16>&);
template void launch(cudaStream_t, const BatchNormStatistics<Float16>&);

template void launch(cudaStream_t, const BatchNormTotalsAndStatistics<float>&);
template void launch(cudaStream_t, const BatchNormTotalsAndStatistics<core::BFloat16>&);
template void launch(cudaStream_t, const BatchNormTotalsAndStatistics<Float16>&);

template void launch(cudaStream_t, const BatchNormApply<float>&);
template void launch(cudaStream_t, const BatchNormApply<core::BFloat16>&);
template void launch(cudaStream_t, const BatchNormApply<Float16>&);

template void launch(cudaStream_t, const BatchNormGradientSums<float>&);
template void launch(cudaStream_t, const BatchNormGradientSums<core::BFloat16>&);
template void launch(cudaStream_t, const BatchNormGradientSums<Float16>&);

template void launch(cudaStream_t, const BatchNormInputGradient<float>&);
template void launch(cudaStream_t, const BatchNormInputGradient<core::BFloat16>&);
template void launch(cudaStream_t, const BatchNormInputGradient<Float16>&);

template void launch(cudaStream_t, const ChannelSlabSums<float>&);
template void launch(cudaStream_t, const ChannelSlabSums<core::BFloat16>&);
template void launch(cudaStream_t, const ChannelSlabSums<Float16>&);

template void launch(cudaStream_t, const BatchNormStatisticsOfSums&);
template void launch(cudaStream_t, const BatchNormInferenceCoefficients&);
template void launch(cudaStream_t, const BatchNormGradientTotals&);
template void launch(cudaStream_t, const BatchNormGradientCoefficients&);
template void launch(cudaStream_t, const BatchNormGradientTotalsAndCoefficients&);
template void launch(cudaStream_t, const ChannelTotals&);

}  // namespace lockstep::backend::cuda
