// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <ostream>
#include <vector>

#include "backend/cpu/cells/convolution.hpp"
#include "backend/cpu/kernels/division.hpp"

// The convolutions that cells_test.cpp computes. They are small, because the emulated tiles are
// slow.

namespace lockstep::backend::cpu::cells {

struct Case {
  std::int64_t images, in_channels, out_channels, height, width, kernel, stride;
  bool has_bias = false;
  int threads = 1;
  std::int64_t cached_bytes = 1 << 20;
  std::int64_t padding = kernel / 2;
  MapLayout source = MapLayout::blocked32x32;
  MapLayout destination = MapLayout::blocked32x32;

  ConvolutionSizes sizes() const {
    return {images,
            in_channels,
            height,
            width,
            out_channels,
            (height + 2 * padding - kernel) / stride + 1,
            (width + 2 * padding - kernel) / stride + 1,
            kernel,
            stride,
            padding,
            has_bias};
  }
  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << fmt::format(
        "{} images of {}x{}x{} to {} channels, {}x{} stride {}, {} threads{}, layouts {} and {}",
        c.images, c.in_channels, c.height, c.width, c.out_channels, c.kernel, c.kernel, c.stride,
        c.threads, c.has_bias ? ", bias" : "", static_cast<int>(c.source),
        static_cast<int>(c.destination));
  }
};

/// Maps that are processed in place.
inline constexpr Case in_place_cases[] = {
    {.images = 3,
     .in_channels = 32,
     .out_channels = 32,
     .height = 5,
     .width = 4,
     .kernel = 3,
     .stride = 1},
    {.images = 33,
     .in_channels = 16,
     .out_channels = 40,
     .height = 3,
     .width = 2,
     .kernel = 3,
     .stride = 1,
     .has_bias = true,
     .threads = 2},
    {.images = 2,
     .in_channels = 35,
     .out_channels = 17,
     .height = 6,
     .width = 7,
     .kernel = 3,
     .stride = 2,
     .has_bias = true},
    {.images = 2,
     .in_channels = 64,
     .out_channels = 32,
     .height = 7,
     .width = 5,
     .kernel = 3,
     .stride = 2,
     .threads = 2},
    {.images = 40,
     .in_channels = 32,
     .out_channels = 64,
     .height = 4,
     .width = 4,
     .kernel = 1,
     .stride = 2},
    {.images = 2,
     .in_channels = 48,
     .out_channels = 33,
     .height = 5,
     .width = 3,
     .kernel = 1,
     .stride = 1,
     .has_bias = true,
     .threads = 2},
    // Bands of one output row and of two output rows.
    {.images = 34,
     .in_channels = 32,
     .out_channels = 32,
     .height = 5,
     .width = 3,
     .kernel = 3,
     .stride = 1,
     .has_bias = true,
     .cached_bytes = 1},
    {.images = 34,
     .in_channels = 32,
     .out_channels = 32,
     .height = 7,
     .width = 3,
     .kernel = 3,
     .stride = 2,
     .threads = 2,
     .cached_bytes = 30000},
    // Two threads share the bands of a single block of images.
    {.images = 3,
     .in_channels = 32,
     .out_channels = 32,
     .height = 6,
     .width = 3,
     .kernel = 3,
     .stride = 1,
     .threads = 2,
     .cached_bytes = 1},
    // By Winograd's algorithm, each thread adds up the weight gradients of its own tiles.
    {.images = 3,
     .in_channels = 32,
     .out_channels = 64,
     .height = 6,
     .width = 6,
     .kernel = 3,
     .stride = 1,
     .has_bias = true,
     .threads = 2},
    // Threads have different numbers of tiles, and process each of them alone.
    {.images = 33,
     .in_channels = 32,
     .out_channels = 32,
     .height = 10,
     .width = 2,
     .kernel = 3,
     .stride = 1,
     .has_bias = true,
     .threads = 3,
     .cached_bytes = 1},
    // More threads than rows share the blocks of channels.
    {.images = 3,
     .in_channels = 64,
     .out_channels = 96,
     .height = 2,
     .width = 3,
     .kernel = 3,
     .stride = 1,
     .has_bias = true,
     .threads = 8},
    // Input positions that contribute to no output, and output positions without input.
    {.images = 2,
     .in_channels = 32,
     .out_channels = 32,
     .height = 5,
     .width = 4,
     .kernel = 3,
     .stride = 1,
     .has_bias = true,
     .padding = 0},
    {.images = 2,
     .in_channels = 32,
     .out_channels = 32,
     .height = 3,
     .width = 3,
     .kernel = 1,
     .stride = 1,
     .has_bias = true,
     .cached_bytes = 1,
     .padding = 1},
    {.images = 1,
     .in_channels = 32,
     .out_channels = 32,
     .height = 1,
     .width = 1,
     .kernel = 3,
     .stride = 1},
};

/// Convolutions of few channels, by patches: several blocks of images, a stride, more than 32
/// pixels in a row, more than 32 channels of patches, bands of one row.
inline constexpr Case patch_cases[] = {
    {.images = 33,
     .in_channels = 3,
     .out_channels = 40,
     .height = 5,
     .width = 4,
     .kernel = 3,
     .stride = 1,
     .has_bias = true,
     .threads = 2,
     .source = MapLayout::planar},
    {.images = 3,
     .in_channels = 1,
     .out_channels = 16,
     .height = 3,
     .width = 67,
     .kernel = 3,
     .stride = 2,
     .source = MapLayout::planar},
    {.images = 2,
     .in_channels = 3,
     .out_channels = 32,
     .height = 6,
     .width = 35,
     .kernel = 5,
     .stride = 1,
     .cached_bytes = 1,
     .source = MapLayout::planar},
    {.images = 2,
     .in_channels = 15,
     .out_channels = 32,
     .height = 4,
     .width = 3,
     .kernel = 1,
     .stride = 1,
     .source = MapLayout::planar},
    {.images = 2,
     .in_channels = 2,
     .out_channels = 16,
     .height = 3,
     .width = 2,
     .kernel = 7,
     .stride = 2,
     .source = MapLayout::planar},
};

/// The cases above, and those that are processed in place with complete blocks of images.
inline std::vector<Case> small_cases() {
  std::vector<Case> cases(std::begin(patch_cases), std::end(patch_cases));
  for (const Case& c : in_place_cases) {
    cases.push_back(c);
    cases.push_back(c);
    cases.back().images = ceil_div(c.images, 32) * 32;
  }
  return cases;
}

}  // namespace lockstep::backend::cpu::cells
