// SPDX-License-Identifier: BSD-3-Clause
// Instantiates all kernels except those of batch norm for the device.

#include "kernels/difference.hpp"
#include "kernels/dropout.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gradient_scaling.hpp"
#include "kernels/layout.hpp"
#include "kernels/loss.hpp"
#include "kernels/pooling.hpp"
#include "kernels/update.hpp"
#include "launch.cuh"

namespace lockstep::backend::cuda {

using namespace kernels;

LOCKSTEP_LAUNCH_ALL_TYPES(NormaliseImages);
LOCKSTEP_LAUNCH_ALL_TYPES(AveragePoolForward);
LOCKSTEP_LAUNCH_ALL_TYPES(AveragePoolBackward);
LOCKSTEP_LAUNCH_ALL_TYPES(Dropout);
LOCKSTEP_LAUNCH_ALL_TYPES(FlattenForward);
LOCKSTEP_LAUNCH_ALL_TYPES(FlattenBackward);
LOCKSTEP_LAUNCH_ALL_TYPES(MaxPoolForward);
LOCKSTEP_LAUNCH_ALL_TYPES(MaxPoolBackward);
LOCKSTEP_LAUNCH_ALL_TYPES(ReluForward);
LOCKSTEP_LAUNCH_ALL_TYPES(ReluBackward);
LOCKSTEP_LAUNCH_ALL_TYPES(Add);
LOCKSTEP_LAUNCH_ALL_TYPES(FlushGradients);
LOCKSTEP_LAUNCH_ALL_TYPES(AddGradientsToSums);
LOCKSTEP_LAUNCH_ALL_TYPES(AddSumsToGradients);
LOCKSTEP_LAUNCH_ALL_TYPES(SquaredDistance);

template void launch(cudaStream_t, const SoftmaxCrossEntropy&);
template void launch(cudaStream_t, const SumResults&);
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
