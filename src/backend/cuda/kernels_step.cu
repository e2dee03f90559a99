// SPDX-License-Identifier: BSD-3-Clause
// Instantiates the kernels on the flat buffers for the device.

#include "kernels/gradient_clipping.hpp"
#include "kernels/gradient_sums.hpp"
#include "kernels/local_rates.hpp"
#include "kernels/loss_scale.hpp"
#include "kernels/segment_groups.hpp"
#include "kernels/update.hpp"
#include "launch.cuh"

namespace lockstep::backend::cuda {

using namespace kernels;

LOCKSTEP_LAUNCH_ALL_TYPES(FlushGradients);
LOCKSTEP_LAUNCH_ALL_TYPES(AddGradientsToSums);
LOCKSTEP_LAUNCH_ALL_TYPES(AddSumsToGradients);

template void launch(cudaStream_t, const GradientSquares&);
template void launch(cudaStream_t, const ClippingFactor&);
template void launch(cudaStream_t, const SegmentSums&);
template void launch(cudaStream_t, const LocalRates&);
template void launch(cudaStream_t, const SgdUpdate&);
template void launch(cudaStream_t, const LarsUpdate&);
template void launch(cudaStream_t, const AdamWUpdate&);
template void launch(cudaStream_t, const RefreshWeights&);
template void launch(cudaStream_t, const LossScaleUpdate&);

}  // namespace lockstep::backend::cuda
