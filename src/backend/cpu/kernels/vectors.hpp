// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <cstring>

#include "lockstep/core/data_type.hpp"

// GCC vector extensions, for kernels that plain loops do not make fast enough. A file that uses
// them compiles each of its public functions for several instruction sets (LOCKSTEP_CLONES: the
// version for this processor is selected at load time) and inlines everything else into these
// functions. So no vector is passed across a function call, and GCC's warning that the calling
// convention differs between instruction sets (-Wpsabi) is disabled for these files.

#define LOCKSTEP_INLINE [[gnu::always_inline]] inline
#define LOCKSTEP_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]

namespace lockstep::backend::cpu {

/// One value as float32, whatever the element type of its map.
LOCKSTEP_INLINE float load(float value) { return value; }
LOCKSTEP_INLINE float load(core::BFloat16 value) { return core::to_float(value); }
LOCKSTEP_INLINE void store(float value, float& to) { to = value; }
LOCKSTEP_INLINE void store(float value, core::BFloat16& to) { to = core::to_bfloat16(value); }

/// Fetches the cache line `bytes` after `data`, if `writes` is 1 to write to it: the hardware
/// prefetcher does not cross page boundaries. The address may be outside the map; it is never
/// dereferenced.
template <int writes = 0>
LOCKSTEP_INLINE void prefetch_ahead(const void* data, std::int64_t bytes) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(data) +
                                                   static_cast<std::uintptr_t>(bytes)),
                     writes);
}

/// Hides from the compiler how a pointer was computed. Otherwise it computes all addresses of a
/// loop body before the loop, and these do not fit in registers.
template <class P>
LOCKSTEP_INLINE void forget(P*& pointer) {
  asm("" : "+r"(pointer));
}

template <int W>
struct Vectors {
  using Float [[gnu::vector_size(W * 4)]] = float;
  using Bits [[gnu::vector_size(W * 4)]] = std::uint32_t;
  using Half [[gnu::vector_size(W * 2)]] = std::uint16_t;
};
template <int W>
using Vector = typename Vectors<W>::Float;

template <int W>
LOCKSTEP_INLINE Vector<W> load(const float* from) {
  Vector<W> value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <int W>
LOCKSTEP_INLINE Vector<W> load(const core::BFloat16* from) {
  typename Vectors<W>::Half half;
  std::memcpy(&half, from, sizeof(half));
  return reinterpret_cast<Vector<W>>(__builtin_convertvector(half, typename Vectors<W>::Bits)
                                     << 16);
}

template <int W>
LOCKSTEP_INLINE void store(const Vector<W>& value, float* to) {
  std::memcpy(to, &value, sizeof(value));
}

/// Converts as core::to_bfloat16 does.
template <int W>
LOCKSTEP_INLINE void store(const Vector<W>& value, core::BFloat16* to) {
  using Bits = typename Vectors<W>::Bits;
  const Bits bits = reinterpret_cast<Bits>(value);
  const Bits rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const Bits nan = (bits >> 16) | 0x40u;
  const auto half = __builtin_convertvector((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded,
                                            typename Vectors<W>::Half);
  std::memcpy(static_cast<void*>(to), &half, sizeof(half));
}

}  // namespace lockstep::backend::cpu
