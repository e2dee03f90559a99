// SPDX-License-Identifier: BSD-3-Clause
// Instantiates the kernels of the network, except batch norm, for the device.

#include "kernels/dropout.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/flatten.hpp"
#include "kernels/images.hpp"
#include "kernels/loss.hpp"
#include "kernels/pooling.hpp"
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

template void launch(cudaStream_t, const SoftmaxCrossEntropy&);
template void launch(cudaStream_t, const SumResults&);

}  // namespace lockstep::backend::cuda
