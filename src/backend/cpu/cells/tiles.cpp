// SPDX-License-Identifier: BSD-3-Clause
#include "tiles.hpp"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cfloat>
#include <cmath>

namespace lockstep::backend::cpu::cells {

namespace {

/// Operand of LDTILECFG: palette 1, 8 tiles of 16 rows of 64 bytes.
struct alignas(64) Configuration {
  Configuration() {
    for (int tile = 0; tile < 8; ++tile) {
      row_bytes[tile] = tile_stride;
      rows[tile] = tile_rows;
    }
  }
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(Configuration) == 64);

/// Flushes denormals to zero, as the instructions do when they read and write values.
float flushed(float value) {
  return std::fabs(value) < FLT_MIN ? std::copysign(0.0F, value) : value;
}

float low_half(std::uint32_t pair) { return flushed(std::bit_cast<float>(pair << 16)); }
float high_half(std::uint32_t pair) { return flushed(std::bit_cast<float>(pair & 0xffff0000U)); }

}  // namespace

bool has_hardware_tiles() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned bf16_and_tiles = 1U << 22 | 1U << 24;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & bf16_and_tiles) != bf16_and_tiles) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;  // arch_prctl(2), Linux 5.16
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

void HardwareTiles::configure() {
  static const Configuration configuration;
  asm volatile("ldtilecfg %0" : : "m"(configuration));
}

void HardwareTiles::release() { asm volatile("tilerelease"); }

// The products at even and at odd positions are summed separately by fused multiply-adds; the two
// sums are added to each other, and then to the previous value.
void EmulatedTiles::multiply(Tile& sum, const Tile& a, const Tile& b) {
  constexpr auto n = static_cast<std::size_t>(tile_rows);
  for (std::size_t row = 0; row < n; ++row) {
    std::array<float, n> even{}, odd{};
    for (std::size_t k = 0; k < n; ++k) {
      const float low = low_half(a[row * n + k]), high = high_half(a[row * n + k]);
      for (std::size_t column = 0; column < n; ++column) {
        const std::uint32_t pair = b[k * n + column];
        even[column] = flushed(std::fma(low, low_half(pair), even[column]));
        odd[column] = flushed(std::fma(high, high_half(pair), odd[column]));
      }
    }
    for (std::size_t column = 0; column < n; ++column) {
      std::uint32_t& to = sum[row * n + column];
      to = std::bit_cast<std::uint32_t>(
          flushed(flushed(std::bit_cast<float>(to)) + flushed(even[column] + odd[column])));
    }
  }
}

}  // namespace lockstep::backend::cpu::cells
