// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "map_direction.hpp"

namespace lockstep::backend::cpu::cells {

/// Computes one map from the other by Winograd's algorithm, in groups of tiles: transforms the
/// patches of the tiles, and then multiplies them by the weights of one block of `to` after the
/// other. If the transformed patches are larger than the transformed weights, the latter are stored
/// first, and each thread computes its own tiles. Otherwise the threads share each group of tiles,
/// and each of them transforms the weights of its own blocks of `to`, so that they never leave its
/// cache.
class WinogradMapDirection : public MapDirection {
 protected:
  /// `patch_extra_bytes`: memory of a patch in addition to its cells, a multiple of 64.
  WinogradMapDirection(std::string_view instructions, std::string_view algorithm, double arithmetic,
                       WinogradSizes winograd, const Resources& resources,
                       std::unique_ptr<CellRows> from, const FeatureMap& to,
                       const WeightMatrix& weights, std::size_t patch_extra_bytes);

  /// The memory of the patch of a tile: cells [frequency][block of from], with the rows of the
  /// images that exist, and the extra bytes.
  struct PatchMemory {
    std::byte* cells;
    std::byte* extra;
  };

  /// Returns the bytes of scratch memory that each thread needs, a multiple of 64.
  virtual std::size_t scratch_bytes() const { return 0; }
  /// Transforms the patch of a tile.
  virtual void transform_patch(const TilePosition& tile, const PatchMemory& patch,
                               std::byte* scratch) const = 0;
  /// Computes the sums of one frequency of a tile. `weights`: the cells of a block of `to`.
  virtual void multiply(const TilePosition& tile, const PatchMemory& patch,
                        const std::byte* weights, std::int64_t frequency, float* sums) const = 0;
  /// Transforms the sums of all frequencies of a tile to the output.
  virtual void write_tile(const PatchMemory& patch, std::int64_t to_block, const float* sums,
                          const OutputTile& tile) const = 0;

  // A cache line between the frequencies keeps those of one element out of the same cache set.

  /// Values from one frequency of a patch to the next.
  std::int64_t frequency_stride(std::int64_t images) const {
    return from_->blocks() * images * cell_channels + cache_line;
  }
  /// Floats from the sums of one frequency to those of the next.
  static constexpr std::int64_t sums_stride = cell_size + cache_line;

  std::size_t shared_bytes() const override;
  void bind_shared(ArenaAllocator& arena) override;

 private:
  /// Tiles that are computed one after the other, and the blocks of `to` that are computed of them.
  struct Work {
    std::vector<TilePosition> tiles;
    Range to_blocks;
  };
  /// Memory for a group of tiles.
  struct Memory {
    std::byte* patches;  ///< of the thread, or shared
    std::byte* weights;  ///< of a block of `to`; null if all weights are stored
    std::byte* scratch;
    float* sums;  ///< [tile][frequency]
  };

  std::size_t own_bytes() const override;
  void compute(std::byte* own) const override;

  std::size_t cells_bytes() const;
  std::size_t patch_bytes() const { return cells_bytes() + patch_extra_bytes_; }
  std::size_t patches_bytes() const {
    return static_cast<std::size_t>(tiles_at_once_) * patch_bytes();
  }
  static constexpr std::size_t sums_bytes = sums_stride * sizeof(float);  // of a frequency
  Memory memory_of(std::byte* own) const;
  PatchMemory patch_of(const Memory& memory, std::size_t index) const;

  void compute_own_tiles(const Work& work, const Memory& memory) const;
  void compute_shared_tiles(std::span<const TilePosition> tiles, const Memory& memory) const;
  void compute_block(std::span<const TilePosition> tiles, std::int64_t to_block,
                     const std::byte* weights, const Memory& memory) const;
  OutputTile output_tile(const TilePosition& tile, std::int64_t to_block) const;

  WinogradSizes winograd_;
  std::size_t patch_extra_bytes_;
  std::vector<std::vector<Work>> work_;  // of each thread, or of all threads together
  std::int64_t tiles_at_once_ = 1;
  std::byte* shared_patches_ = nullptr;
};

}  // namespace lockstep::backend::cpu::cells
