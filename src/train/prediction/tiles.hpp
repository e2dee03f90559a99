#pragma once

#include "lockstep/train/prediction_models.hpp"

namespace lockstep::train {

/// The output (rows, columns) of a matrix product that is distributed over the multiprocessors in
/// tiles.
struct ProductShape {
  double rows = 0, columns = 0;
  /// Whether the reduction is divided too, so that the number of tiles need not be a multiple of
  /// the number of multiprocessors (weight gradients).
  enum class Split { none, reduction } split = Split::none;
};

/// Returns the share of the arithmetic rate that remains for a product: the part of the tiles that
/// is used, times the part of the last wave of tiles that is filled, times `gpu.narrow_tile` if a
/// side of the tile is 64. It is that of the best of the tiles 256x128, 128x128, 256x64, 128x64 and
/// 64x64 in both orientations (NVIDIA, Matrix Multiplication Background User's Guide: tile and wave
/// quantisation).
Interval tile_efficiency(const ProductShape& product, const GpuModel& gpu);

}  // namespace lockstep::train
