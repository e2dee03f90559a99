#pragma once

#include "kernels.hpp"

namespace lockstep::train {

/// Returns the roofline bound of the work in seconds: the longer of its floating-point operations
/// and its bytes at the rates of the GPU.
double bound_of(const KernelWork& work, const GpuModel& gpu);

/// Returns the predicted time of the work in seconds, including the gaps after its kernels.
Interval time_of(const KernelWork& work, const GpuModel& gpu);

}  // namespace lockstep::train
