#include "tiles.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep::train {

namespace {

struct Tile {
  double rows, columns;
};
constexpr double narrow = 64;
constexpr Tile tiles[] = {{256, 128}, {128, 256}, {128, 128}, {256, 64},
                          {64, 256},  {128, 64},  {64, 128},  {64, 64}};

double quantisation(const ProductShape& product, const Tile& tile, double multiprocessors) {
  const double count =
      std::ceil(product.rows / tile.rows) * std::ceil(product.columns / tile.columns);
  const double used = product.rows * product.columns / (count * tile.rows * tile.columns);
  if (product.split == ProductShape::Split::reduction) return used;
  const double waves = count / multiprocessors;
  return used * waves / std::ceil(waves);
}

}  // namespace

Interval tile_efficiency(const ProductShape& product, const GpuModel& gpu) {
  Interval best;
  for (const Tile& tile : tiles) {
    const bool is_narrow = std::min(tile.rows, tile.columns) <= narrow;
    const Interval shape = is_narrow ? gpu.narrow_tile : Interval{1, 1};
    const double quantised = quantisation(product, tile, gpu.multiprocessors);
    best.low = std::max(best.low, quantised * shape.low);
    best.high = std::max(best.high, quantised * shape.high);
  }
  return best;
}

}  // namespace lockstep::train
