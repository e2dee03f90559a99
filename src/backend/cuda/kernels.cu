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

template void launch(cudaStream_t, const NormaliseImages<float>&);
template void launch(cudaStream_t, const NormaliseImages<core::BFloat16>&);
template void launch(cudaStream_t, const NormaliseImages<Float16>&);

template void launch(cudaStream_t, const AveragePoolForward<float>&);
template void launch(cudaStream_t, const AveragePoolForward<core::BFloat16>&);
template void launch(cudaStream_t, const AveragePoolForward<Float16>&);

template void launch(cudaStream_t, const AveragePoolBackward<float>&);
template void launch(cudaStream_t, const AveragePoolBackward<core::BFloat16>&);
template void launch(cudaStream_t, const AveragePoolBackward<Float16>&);

template void launch(cudaStream_t, const Dropout<float>&);
template void launch(cudaStream_t, const Dropout<core::BFloat16>&);
template void launch(cudaStream_t, const Dropout<Float16>&);

template void launch(cudaStream_t, const FlattenForward<float>&);
template void launch(cudaStream_t, const FlattenForward<core::BFloat16>&);
template void launch(cudaStream_t, const FlattenForward<Float16>&);

template void launch(cudaStream_t, const FlattenBackward<float>&);
template void launch(cudaStream_t, const FlattenBackward<core::BFloat16>&);
template void launch(cudaStream_t, const FlattenBackward<Float16>&);

template void launch(cudaStream_t, const MaxPoolForward<float>&);
template void launch(cudaStream_t, const MaxPoolForward<core::BFloat16>&);
template void launch(cudaStream_t, const MaxPoolForward<Float16>&);

template void launch(cudaStream_t, const MaxPoolBackward<float>&);
template void launch(cudaStream_t, const MaxPoolBackward<core::BFloat16>&);
template void launch(cudaStream_t, const MaxPoolBackward<Float16>&);

template void launch(cudaStream_t, const ReluForward<float>&);
template void launch(cudaStream_t, const ReluForward<core::BFloat16>&);
template void launch(cudaStream_t, const ReluForward<Float16>&);

template void launch(cudaStream_t, const ReluBackward<float>&);
template void launch(cudaStream_t, const ReluBackward<core::BFloat16>&);
template void launch(cudaStream_t, const ReluBackward<Float16>&);

template void launch(cudaStream_t, const Add<float>&);
template void launch(cudaStream_t, const Add<core::BFloat16>&);
template void launch(cudaStream_t, const Add<Float16>&);

template void launch(cudaStream_t, const SoftmaxCrossEntropy&);
template void launch(cudaStream_t, const SumResults&);

}  // namespace lockstep::backend::cuda
