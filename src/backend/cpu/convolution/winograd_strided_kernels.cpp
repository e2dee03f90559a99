// SPDX-License-Identifier: BSD-3-Clause
#include "winograd_strided_kernels.hpp"

#include "winograd_transforms.hpp"

namespace lockstep::backend::cpu::winograd::strided {

LOCKSTEP_CLONES void transform_input(const FeatureMap& map, Tiling tiling, TileRange range,
                                     const Panels& to, std::int64_t first_entry) {
  transform_map<Bt, source_tile_size, 1>(map, tiling, range, to, first_entry, nullptr);
}

LOCKSTEP_CLONES void transform_gradient(const FeatureMap& map, Tiling tiling, TileRange range,
                                        const Panels& to, std::int64_t first_entry, float* sums) {
  transform_map<A, tile_size, 0>(map, tiling, range, to, first_entry, sums);
}

LOCKSTEP_CLONES void transform_gradient_patch(const FeatureMap& map, Tiling tiling, TileRange range,
                                              const Panels& to, std::int64_t first_entry) {
  transform_map<GradientBt, tile_size, 0>(map, tiling, range, to, first_entry, nullptr);
}

LOCKSTEP_CLONES void transform_output(const Panels& from, std::int64_t first_entry,
                                      const FeatureMap& map, Tiling tiling, TileRange range,
                                      std::int64_t panel, const float* bias,
                                      PartialSums* statistics) {
  output_map<At>(from, first_entry, map, tiling, range, panel, bias, statistics);
}

LOCKSTEP_CLONES void transform_input_gradient(const Panels& from, std::int64_t first_entry,
                                              const FeatureMap& map, Tiling tiling, TileRange range,
                                              std::int64_t panel, const float* bias,
                                              PartialSums* statistics) {
  output_map<GradientAt>(from, first_entry, map, tiling, range, panel, bias, statistics);
}

LOCKSTEP_CLONES void transform_weights(const Kernels& kernels, std::int64_t panel,
                                       const Panels& to) {
  weights_to_panel<G>(kernels, panel, to);
}

LOCKSTEP_CLONES void transform_weight_gradient(const Panels& from, const Kernels& kernels,
                                               std::int64_t first_depth, std::int64_t panel,
                                               bool accumulate) {
  panel_to_weight_gradient<Gt>(from, kernels, first_depth, panel, accumulate);
}

}  // namespace lockstep::backend::cpu::winograd::strided
