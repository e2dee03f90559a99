// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "directions.hpp"

// What the directions that compute the gradient of the weights by Winograd's algorithms have in
// common.

namespace lockstep::backend::cpu::cells {

/// Tiles that are processed one after the other: first those with 32 images, then those with fewer.
struct TileList {
  std::vector<TilePosition> tiles;
  std::int64_t complete = 0;  ///< tiles with 32 images

  std::int64_t count() const { return std::ssize(tiles); }
};

/// Computes the gradient of the weights: transforms the tiles of a group, and then multiplies them.
/// If the transformed tiles are larger than the sums of all threads, each thread processes its own
/// groups, so that no thread reads what another one has transformed, and the sums of the threads
/// are added at the end. Otherwise all threads share each group: a task computes the sums of one
/// block of output channels and one block of input channels, or of some frequencies of them.
class WinogradWeightsDirection : public WeightsDirection {
 protected:
  WinogradWeightsDirection(std::string_view instructions, std::string_view algorithm,
                           WinogradSizes winograd, const Resources& resources,
                           const ConvolutionSizes& sizes, std::unique_ptr<CellRows> source,
                           std::unique_ptr<CellRows> destination);

  /// Transformed cells of a group of tiles, and sums of their products.
  struct Group {
    std::byte* source;    ///< cells [block][frequency][tile of the group]
    std::byte* gradient;  ///< cells likewise
    std::byte* scales;    ///< `scales_bytes`
    float* sums;
  };

  /// Returns the bytes of the scales of a group, a multiple of 64.
  virtual std::size_t scales_bytes() const { return 0; }
  /// Computes the scales of part `part` of `parts` parts of the channels. `tiles`: of the group.
  virtual void compute_scales(const TileList&, Range /*tiles*/, std::int64_t /*part*/,
                              std::int64_t /*parts*/, const Group&) const {}
  /// Transforms the maps of a tile to the cells of tile `to` of the group.
  virtual void transform(const TilePosition& tile, std::int64_t to, const Group& group) const = 0;
  /// Adds the products of the tiles of a group to the sums of a pair, for some frequencies of
  /// weights.
  virtual void multiply(const TileList& list, Range tiles, std::int64_t pair, Range part,
                        const Group& group) const = 0;
  /// Transforms one row of the sums of all frequencies, `cell_size` floats apart, to the gradients
  /// of the weights of up to 16 input channels.
  virtual void transform_weight_gradient(const float* from, std::int64_t channels,
                                         float* to) const = 0;

  /// Returns the sums [frequency of weights] of a pair, which this thread computes.
  float* sums_of(const Group& group, std::int64_t pair) const;
  /// Returns the cells [frequency][tile of the group] of a block, as values of 16 bits.
  template <class Value>
  Value* cells_of(std::byte* cells, std::int64_t block) const {
    static_assert(sizeof(Value) * cell_size == cell_bytes);
    return reinterpret_cast<Value*>(cells) + block * winograd_.frequencies * frequency_stride();
  }
  /// Values from one frequency to the next. The cache line more than the cells of all tiles keeps
  /// the frequencies of one element out of the same cache set.
  std::int64_t frequency_stride() const { return tiles_at_once_ * cell_size + cache_line; }
  std::int64_t tiles_at_once() const { return tiles_at_once_; }

  /// Returns the patch of the source of a tile, or the gradient of its pixels, for the first block
  /// of channels.
  Patch source_patch(const TilePosition& tile) const {
    return {*source_,
            tile.image_block,
            sizes_.in_height,
            tile.row * sizes_.stride - 1,
            tile.column * sizes_.stride - 1,
            winograd_.patch_size};
  }
  Patch gradient_patch(const TilePosition& tile) const {
    return {*destination_, tile.image_block, sizes_.out_height,
            tile.row,      tile.column,      winograd_.tile_size};
  }

  /// Adds the cells of the gradient of a tile to the gradient of the bias.
  void add_patch_to_bias(std::int64_t block, const Patch& patch, std::int64_t images) const {
    for (const core::BFloat16* const cell : patch.cells()) {
      if (cell != zero_cell) add_to_bias(block, cell, images);
    }
  }

  // The transforms are computed element by element, so that cells can be interleaved or transposed
  // before they are transformed: there are fewer of them then.

  /// Returns a copy of a patch with interleaved cells, in the memory of this thread.
  Patch interleaved(const Patch& patch, std::int64_t images) const {
    core::BFloat16* to = own() - cell_size;
    return patch.copied([&](const core::BFloat16* from) {
      kernels_.interleave(from, images, to += cell_size);
      return to;
    });
  }
  /// Returns a copy of a patch with transposed cells likewise.
  Patch transposed(const Patch& patch, std::int64_t images) const {
    core::BFloat16* to = own() - cell_size;
    return patch.copied([&](const core::BFloat16* from) {
      kernels_.transpose(from, images, to += cell_size);
      return to;
    });
  }

 private:
  std::size_t own_bytes() const override;
  std::size_t shared_bytes() const override;
  void bind_shared(ArenaAllocator& arena) override;
  void compute() override;

  Group group_of(std::size_t list) const;
  std::int64_t pairs() const { return source_->blocks() * destination_->blocks(); }
  std::int64_t sums_bytes() const;
  bool stores_sums() const;
  std::int64_t tile_bytes() const;
  std::size_t cells_bytes(const CellRows& rows) const;
  std::size_t group_bytes() const;
  void run_alone() const;
  void run_shared() const;
  void write_gradient(std::int64_t pair, const float* sums) const;

  WinogradSizes winograd_;
  TileGrid grid_;
  bool is_shared_;                           // the threads share the groups of tiles
  std::vector<TileList> lists_;              // of all threads together, or of each thread
  std::int64_t most_tiles_, tiles_at_once_;  // of a list; of a group
  std::int64_t parts_;                       // of the frequencies of a pair
  std::byte* groups_ = nullptr;              // `Group` of each list
};

}  // namespace lockstep::backend::cpu::cells
