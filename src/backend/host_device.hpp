// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// Marks a function that is compiled for the host and, by a CUDA compiler, also for the device.
#ifdef __CUDACC__
#define LOCKSTEP_HOST_DEVICE __host__ __device__
#else
#define LOCKSTEP_HOST_DEVICE
#endif
