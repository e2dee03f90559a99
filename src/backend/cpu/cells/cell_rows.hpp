// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "geometry.hpp"
#include "kernels.hpp"

namespace lockstep::backend::cpu::cells {

/// Reads the rows of a map as plain cells, for one block of 32 images at a time.
class CellRows {
 public:
  virtual ~CellRows() = default;

  std::int64_t pixels() const { return pixels_; }  ///< per row
  std::int64_t blocks() const { return blocks_; }  ///< of 32 channels
  std::int64_t cells() const { return pixels_ * blocks_; }
  std::int64_t bytes() const { return cells() * cell_bytes; }  ///< of a copied row
  virtual CellStrides strides(std::int64_t image_block) const = 0;

  /// Returns true if the map consists of cells, so that they are not copied.
  virtual bool in_place() const { return false; }
  /// Returns what the cells are, for the names of implementations.
  virtual std::string_view kind() const = 0;
  /// Returns the first cell of a row. The cells are those of the map, or are copied to `copy`,
  /// which has space for a row.
  virtual const core::BFloat16* row(std::int64_t image_block, std::int64_t row,
                                    core::BFloat16* copy) const = 0;

 protected:
  CellRows(std::int64_t pixels, std::int64_t blocks) : pixels_(pixels), blocks_(blocks) {}

 private:
  std::int64_t pixels_, blocks_;
};

/// Returns the name that is shown to users of an implementation that reads `rows`.
std::string implementation_name(const Kernels& kernels, std::string_view algorithm,
                                const CellRows& rows);

/// Returns the rows of a map whose layout is `blocked32x32`. The map must outlive them.
std::unique_ptr<CellRows> make_cell_rows(const FeatureMap& map);

/// Returns the rows of the patches of a planar source (im2col): one pixel per output pixel of the
/// convolution, whose channels (input channel, row and column of the kernel) are the inputs of the
/// output pixel; those outside the map are 0. With patches, a convolution of few input channels is
/// a 1x1 convolution that fills its tiles. The source and the kernels must outlive them.
std::unique_ptr<CellRows> make_patch_rows(const FeatureMap& source, const ConvolutionSizes& sizes,
                                          const Kernels& kernels);

}  // namespace lockstep::backend::cpu::cells
