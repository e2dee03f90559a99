// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The only file of the kernels that depends on the compiler: it contains the differences between
// host and device. All other code is the same on both.
//
// A team is a group of threads that works on one index of a kernel: 32 threads (a warp) or 256 (a
// block). A kernel requests a team with `static constexpr int team`. On the host, one thread
// emulates the team and adds in the same order.
//
// "Memory traffic" in the documentation of a kernel lists the tensors that it accesses. Each byte
// is read or written once, unless the text states otherwise. Small tensors whose values many
// threads read are listed after "from caches". "Uncoalesced": the threads of a warp do not read
// contiguous bytes.
//
// A kernel that waits for memory requests `static constexpr int resident_blocks` if the compiler
// would otherwise use so many registers that fewer blocks are resident on a multiprocessor.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "lockstep/core/data_type.hpp"

/// Marks a function that is compiled for the host and, by a CUDA compiler, also for the device.
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define LOCKSTEP_HOST_DEVICE __host__ __device__
#else
#define LOCKSTEP_HOST_DEVICE
#endif

namespace lockstep::backend::cuda::kernels {

/// Number of threads per block, the same for all kernels.
constexpr int block_threads = 256;

using core::Float16;

LOCKSTEP_HOST_DEVICE inline float widen(float value) { return value; }

LOCKSTEP_HOST_DEVICE inline float widen(core::BFloat16 value) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(static_cast<unsigned int>(value.bits) << 16);
#else
  return core::to_float(value);
#endif
}

LOCKSTEP_HOST_DEVICE inline float widen(Float16 value) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(value.bits));
#else
  return core::to_float(value);
#endif
}

LOCKSTEP_HOST_DEVICE inline void narrow(float value, float& to) { to = value; }

/// Rounds to nearest, ties to even.
LOCKSTEP_HOST_DEVICE inline void narrow(float value, core::BFloat16& to) {
#ifdef __CUDA_ARCH__
  to.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
  to = core::to_bfloat16(value);
#endif
}

/// Rounds to nearest, ties to even; values of magnitude 65520 and above become infinity.
LOCKSTEP_HOST_DEVICE inline void narrow(float value, Float16& to) {
#ifdef __CUDA_ARCH__
  to.bits = __half_as_ushort(__float2half_rn(value));
#else
  to = core::to_float16(value);
#endif
}

/// Ends the process with a message if `data` is not a multiple of `alignment` bytes. The device
/// reports such an access itself, as cudaErrorMisalignedAddress.
LOCKSTEP_HOST_DEVICE inline void require_aligned(const void* data, std::size_t alignment) {
#ifdef __CUDA_ARCH__
  static_cast<void>(data), static_cast<void>(alignment);
#else
  if (reinterpret_cast<std::uintptr_t>(data) % alignment == 0) return;
  std::fprintf(stderr, "a kernel accesses %zu bytes at the misaligned address %p\n", alignment,
               data);
  std::abort();
#endif
}

/// Returns the index of this thread in its team; 0 on the host. Thread 0 does the work that is done
/// once per team.
template <int team>
LOCKSTEP_HOST_DEVICE int team_lane() {
#ifdef __CUDA_ARCH__
  return static_cast<int>(threadIdx.x) % team;
#else
  return 0;
#endif
}

/// Calls `work(i)` for i in [0, n), distributed over the threads of the team.
template <int team, class Work>
LOCKSTEP_HOST_DEVICE void team_for(std::int64_t n, Work work) {
#ifdef __CUDA_ARCH__
  for (std::int64_t i = team_lane<team>(); i < n; i += team) work(i);
#else
  for (std::int64_t i = 0; i < n; ++i) work(i);
#endif
}

/// Returns the reduction of `read(0)` to `read(n - 1)` with `combine`, which must be commutative,
/// and associative up to rounding. All threads of the team must call this function, and all get the
/// same value. The order of the operations is fixed.
template <int team, class Value, class Read, class Combine>
LOCKSTEP_HOST_DEVICE Value team_reduce(std::int64_t n, Value identity, Read read, Combine combine) {
  constexpr int warp = 32;
  static_assert(team == warp || team == block_threads);
#ifdef __CUDA_ARCH__
  Value value = identity;
#pragma unroll 4
  for (std::int64_t i = team_lane<team>(); i < n; i += team) value = combine(value, read(i));
  for (int distance = warp / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  if constexpr (team > warp) {
    static_assert(sizeof(Value) * (team / warp) <= 48 << 10, "static shared memory of a block");
    __shared__ Value warps[team / warp];
    __syncthreads();  // threads may still read the values of an earlier call
    if (threadIdx.x % warp == 0) warps[threadIdx.x / warp] = value;
    __syncthreads();
    value = warps[0];
    for (int i = 1; i < team / warp; ++i) value = combine(value, warps[i]);
  }
  return value;
#else
  Value lanes[team];
  for (Value& lane : lanes) lane = identity;
  for (std::int64_t i = 0; i < n; ++i) lanes[i % team] = combine(lanes[i % team], read(i));
  for (int first = 0; first < team; first += warp) {
    for (int distance = warp / 2; distance > 0; distance /= 2) {
      for (int i = first; i < first + distance; ++i)
        lanes[i] = combine(lanes[i], lanes[i + distance]);
    }
  }
  Value value = lanes[0];
  for (int i = warp; i < team; i += warp) value = combine(value, lanes[i]);
  return value;
#endif
}

/// Returns the sum of `read(0)` to `read(n - 1)`, computed in type `Value`. All threads of the team
/// must call this function.
template <int team, class Value, class Read>
LOCKSTEP_HOST_DEVICE Value team_sum(std::int64_t n, Read read) {
  return team_reduce<team>(n, Value{}, read, [](Value a, Value b) { return a + b; });
}

/// Sums the values of the threads of a block by column: thread t belongs to column t % columns.
/// `compute(t, values)` adds the values of thread t, `kinds` times `width` of them, to `values`,
/// which are 0 at first. `store(kind, i, sum)` gets the sum of element i % width of column i /
/// width; threads of a warp get consecutive i. The order of the operations is fixed. All threads of
/// the block must call this function, with the same `columns`, in [1, block_threads].
template <int kinds, int width, class Compute, class Store>
LOCKSTEP_HOST_DEVICE void column_sums(int columns, Compute compute, Store store) {
  constexpr int values = kinds * width;
  const int row_length = columns * width;
#ifdef __CUDA_ARCH__
  __shared__ float all[block_threads][values + 1];  // + 1: fewer conflicts of banks
  const int thread = static_cast<int>(threadIdx.x);
  float own[values] = {};
  compute(thread, own);
  for (int i = 0; i < values; ++i) all[thread][i] = own[i];
  __syncthreads();
  for (int i = thread; i < kinds * row_length; i += block_threads) {
#else
  float all[block_threads][values] = {};
  for (int thread = 0; thread < block_threads; ++thread) compute(thread, all[thread]);
  for (int i = 0; i < kinds * row_length; ++i) {
#endif
    const int kind = i / row_length, element = i % row_length;
    float sum = 0;
    for (int row = element / width; row < block_threads; row += columns)
      sum += all[row][kind * width + element % width];
    store(kind, element, sum);
  }
}

}  // namespace lockstep::backend::cuda::kernels
