// SPDX-License-Identifier: BSD-3-Clause
// Instantiates the kernels of batch norm and of sums per channel for the device.

#include "kernels/batch_norm.hpp"
#include "kernels/batch_norm_gradient.hpp"
#include "kernels/slabs.hpp"
#include "launch.cuh"

namespace lockstep::backend::cuda {

using namespace kernels;

LOCKSTEP_LAUNCH_ALL_TYPES(BatchNormSums);
LOCKSTEP_LAUNCH_ALL_TYPES(BatchNormTotals);
LOCKSTEP_LAUNCH_ALL_TYPES(BatchNormStatistics);
LOCKSTEP_LAUNCH_ALL_TYPES(BatchNormTotalsAndStatistics);
LOCKSTEP_LAUNCH_ALL_TYPES(BatchNormApply);
LOCKSTEP_LAUNCH_ALL_TYPES(BatchNormGradientSums);
LOCKSTEP_LAUNCH_ALL_TYPES(BatchNormInputGradient);
LOCKSTEP_LAUNCH_ALL_TYPES(ChannelSlabSums);

template void launch(cudaStream_t, const BatchNormStatisticsOfSums&);
template void launch(cudaStream_t, const BatchNormInferenceCoefficients&);
template void launch(cudaStream_t, const BatchNormGradientTotals&);
template void launch(cudaStream_t, const BatchNormGradientCoefficients&);
template void launch(cudaStream_t, const BatchNormGradientTotalsAndCoefficients&);
template void launch(cudaStream_t, const ChannelTotals&);

}  // namespace lockstep::backend::cuda
