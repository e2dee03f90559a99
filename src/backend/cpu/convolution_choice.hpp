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

/// How `ConvolutionAlgorithm::automatic` is resolved.
enum class ChoiceRule {
  fastest,  ///< by timing, which may give another result, with other roundings, in the next run
  fixed,    ///< AMX if the processor has it, or else Winograd's algorithm, or else oneDNN
};

/// True if a plan's convolutions may use AMX: if its options name it, or if they leave the choice
/// open and the processor has it.
bool may_use_amx(const PlanOptions& options);

/// Makes the directions of convolutions by the algorithm that the plan's options name; if that is
/// `automatic`, by `rule`. Each shape is timed once, on at most as many images as fill the kernels,
/// and remembered; a plan of any larger batch gets the same algorithm.
class ConvolutionChooser {
 public:
  explicit ConvolutionChooser(ChoiceRule rule) : rule_(rule) {}

  /// Returns null if no algorithm has a kernel. The maps must outlive the direction.
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
    std::int64_t images, in_channels, out_channels, height, width, kernel, stride, padding;
    auto operator<=>(const Key&) const = default;
  };

  ConvolutionAlgorithm choose(const Context& context, Direction direction,
                              const ConvolutionSizes& sizes, const FeatureMap& source,
                              const FeatureMap& destination);

  ChoiceRule rule_;
  std::map<Key, ConvolutionAlgorithm> fastest_;
};

}  // namespace lockstep::backend::cpu
