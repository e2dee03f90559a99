// SPDX-License-Identifier: BSD-3-Clause
#include "winograd_directions.hpp"

#include <algorithm>
#include <numeric>

#include "../kernels/division.hpp"

namespace lockstep::backend::cpu::winograd {

namespace {

/// Bytes of transformed maps per thread in a block. A block may have more, because it should have
/// at least half of `fewest_products` products per pair of channels: the gradient of the weights is
/// transformed again for each block, and for fewer products this would take longer than they do.
constexpr std::int64_t block_bytes = 2 << 20;
constexpr std::int64_t fewest_products = 128 * frequencies;

/// The transformed maps must be larger than the results of all threads by this factor. Otherwise
/// adding up the results takes longer than reading what other threads have transformed.
constexpr std::int64_t large_ratio = 8;

}  // namespace

TileBlocks::TileBlocks(const Tiling& tiling, std::int64_t channels, int threads,
                       std::int64_t result_bytes, std::int64_t products)
    : tiles_(tiling.count) {
  const std::int64_t bytes_per_tile = products * channels * std::int64_t{sizeof(float)};
  const std::int64_t fewest_tiles = fewest_products / products;
  are_shared_ = tiles_ < threads * fewest_tiles ||
                tiles_ * bytes_per_tile < large_ratio * threads * result_bytes;
  const std::int64_t sharers = are_shared_ ? threads : 1, multiple = are_shared_ ? 1 : threads;
  const std::int64_t most = std::max(fewest_tiles, sharers * block_bytes / bytes_per_tile);
  count_ = ceil_div(ceil_div(tiles_, most), multiple) * multiple;
}

std::int64_t TileBlocks::most_tiles() const { return ceil_div(tiles_, count_); }

TileRange TileBlocks::range(std::int64_t block) const {
  const Range range = part_of(tiles_, block, count_);
  return {range.first, range.last - range.first};
}

int lanes_for(const FeatureMap& source, const FeatureMap& destination) {
  return vector_lanes(std::gcd(source.lanes(), destination.lanes()));
}

}  // namespace lockstep::backend::cpu::winograd
