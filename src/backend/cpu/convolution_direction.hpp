#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "feature_map.hpp"
#include "lockstep/core/data_type.hpp"
#include "onednn.hpp"
#include "operation.hpp"

namespace lockstep::backend::cpu {

/// A bfloat16 map that a float32 kernel works on: the map and its float32 copy. Where map and
/// kernel have the same type there is no copy, and load and store do nothing.
class StagedMap {
 public:
  StagedMap() = default;
  StagedMap(const FeatureMap& map, core::DataType kernel_type, std::byte* copy);

  static std::size_t copy_bytes(const FeatureMap& map, core::DataType kernel_type);

  FeatureMap kernel_view() const { return view_; }
  void load(int threads) const;   ///< map to copy
  void store(int threads) const;  ///< copy to map

 private:
  FeatureMap map_, view_;
};

/// What a direction does with its weights: reads them (after a reorder from the model's plain
/// layout), or writes their gradient (before a reorder to it).
enum class WeightUse { read, written };

/// One direction of a convolution: its oneDNN primitive, the reorder of its weights, and their
/// memory. The maps on its two sides are called source (on the side of the input) and destination,
/// gradients included.
class ConvolutionDirection {
 public:
  /// oneDNN's argument numbers of source, weights and destination.
  struct Arguments {
    int source, weights, destination;
  };

  template <class Description>
  ConvolutionDirection(const Context& context, const Description& description,
                       const dnnl::memory::desc& weights, const ConvolutionSizes& sizes,
                       Arguments arguments, WeightUse use, core::DataType kernel_type)
      : ConvolutionDirection(context, dnnl::primitive(description), description.impl_info_str(),
                             description.scratchpad_desc(), weights, sizes, arguments, use,
                             kernel_type) {}

  const std::string& implementation() const { return implementation_; }
  std::size_t scratch_bytes(const FeatureMap& source, const FeatureMap& destination) const;

  /// `flat`: the plain weights, or where their gradient goes. `bias`: the bias or its gradient, or
  /// null.
  void bind(std::byte* scratch, float* flat, float* bias, int bias_argument,
            const FeatureMap& source, const FeatureMap& destination);

  /// The primitive between the conversions of the maps it reads and the map it writes, if it writes
  /// one.
  enum class Writes { source, destination, neither };
  void run(Writes writes);

 private:
  ConvolutionDirection(const Context& context, dnnl::primitive primitive,
                       std::string implementation, const dnnl::memory::desc& scratchpad,
                       const dnnl::memory::desc& weights, const ConvolutionSizes& sizes,
                       Arguments arguments, WeightUse use, core::DataType kernel_type);
  void prepare_weights();

  const Context* context_;
  dnnl::primitive primitive_;
  dnnl::reorder reorder_;
  std::string implementation_;
  ConvolutionSizes sizes_;
  Arguments names_;
  WeightUse use_;
  core::DataType kernel_type_;
  dnnl::memory weights_, flat_, scratchpad_, source_memory_, destination_memory_, bias_memory_;
  std::vector<dnnl_exec_arg_t> arguments_, reorder_arguments_;
  StagedMap source_, destination_;
  std::span<const float> master_;  ///< what is rounded to bfloat16 before a float32 kernel uses it
  std::span<float> rounded_;
};

}  // namespace lockstep::backend::cpu
