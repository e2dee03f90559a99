#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "../feature_map.hpp"
#include "context.hpp"
#include "convolution_direction.hpp"
#include "onednn.hpp"

namespace lockstep::backend::cpu {

/// Makes the directions of convolutions by the algorithm that the plan's options name; where that
/// is `automatic`, by the faster one on this machine. Each shape is timed once, on at most as many
/// images as fill the kernels, and remembered; a plan of any larger batch gets the same answer.
class ConvolutionChooser {
 public:
  /// Null where no algorithm has a kernel. The maps outlive what is made.
  std::unique_ptr<ConvolutionDirection> make(const Context& context, Direction direction,
                                             const ConvolutionSizes& sizes,
                                             const FeatureMap& source,
                                             const FeatureMap& destination);

 private:
  /// What the speed of the algorithms depends on.
  struct Key {
    Direction direction;
    core::DataType type;
    MapLayout source, destination;
    int threads;
    std::int64_t images, in_channels, out_channels, height, width, kernel, stride;
    auto operator<=>(const Key&) const = default;
  };

  ConvolutionAlgorithm fastest(const Context& context, Direction direction,
                               const ConvolutionSizes& sizes, const FeatureMap& source,
                               const FeatureMap& destination);

  std::map<Key, ConvolutionAlgorithm> fastest_;
};

}  // namespace lockstep::backend::cpu
