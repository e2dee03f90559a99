// SPDX-License-Identifier: BSD-3-Clause
// Compares the sums per channel of whole maps with sums in float64, for complete and incomplete
// blocks of images, and for more threads than there are rows.

#include "backend/cpu/kernels/channel_sums.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::backend::cpu {
namespace {

// The values are multiples of 1/4 of at most 2. Their sums, and those of their squares, of at most
// 65 * 49 values are exact in float32.
void expect_exact_sums(FeatureMap map, int threads) {
  core::Buffer memory(map.bytes());
  map.data = memory.data();
  const auto channels = static_cast<std::size_t>(map.padded_channels());
  std::vector<double> sum(channels), square(channels);
  core::Random random(3, core::RandomStream::test);
  for (std::int64_t image = 0; image < map.images; ++image) {
    for (std::int64_t channel = 0; channel < map.shape.channels; ++channel) {
      for (std::int64_t pixel = 0; pixel < map.shape.pixels(); ++pixel) {
        const float value = static_cast<float>(random.below(17)) / 4 - 2;
        map.as<float>()[map.index(image, channel, pixel)] = value;
        sum[static_cast<std::size_t>(channel)] += static_cast<double>(value);
        square[static_cast<std::size_t>(channel)] += static_cast<double>(value * value);
      }
    }
  }
  const RowTiling tiling = tile_rows(map);
  ChannelSums sums(map, tiling, threads);
  const std::vector<float> shift(static_cast<std::size_t>(tiling.width));
  for (int run = 0; run < 2; ++run) {
    sums.run([&](std::int64_t at, RowTiling part, std::int64_t, float* first, float* second) {
      accumulate(map.as<float>() + at, part, shift.data(), first, second);
    });
    EXPECT_EQ(sums.first, sum);
    EXPECT_EQ(sums.second, square);
  }
}

TEST(ChannelSums, EqualTheSumsOfAllValues) {
  for (const MapLayout layout : {MapLayout::blocked32x32, MapLayout::blocked16,
                                 MapLayout::channels_last, MapLayout::planar}) {
    for (const std::int64_t images : {1, 5, 31, 32, 33, 65}) {
      for (const std::int64_t side : {1, 2, 7}) {
        for (const std::int64_t channels : {17, 64}) {
          for (const int threads : {1, 2, 3, 8}) {
            SCOPED_TRACE(testing::Message() << "layout " << static_cast<int>(layout) << ", "
                                            << images << " images, " << channels << "x" << side
                                            << "x" << side << ", " << threads << " threads");
            expect_exact_sums({.images = images, .shape = {channels, side, side}, .layout = layout},
                              threads);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::backend::cpu
