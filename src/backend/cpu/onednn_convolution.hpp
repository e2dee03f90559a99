#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "convolution_direction.hpp"
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

/// A direction by oneDNN's direct kernels: its primitive, the reorder of its weights, and their
/// memory.
class OnednnDirection : public ConvolutionDirection {
 public:
  enum class Writes { source, destination, neither };  ///< of the maps
  /// What tells one direction from another. The numbers are oneDNN's arguments; `bias` is that of
  /// the bias or of its gradient.
  struct Role {
    int source, weights, destination, bias;
    WeightUse use;
    Writes writes;
  };

  /// Maps that outlive it. `kernel_type`: the element type of the primitive.
  template <class Description>
  OnednnDirection(const Context& context, const Description& description,
                  const dnnl::memory::desc& weights, const ConvolutionSizes& sizes, Role role,
                  core::DataType kernel_type, const FeatureMap& source,
                  const FeatureMap& destination)
      : OnednnDirection(context, dnnl::primitive(description), description.impl_info_str(),
                        description.scratchpad_desc(), weights, sizes, role, kernel_type, source,
                        destination) {}

  const std::string& implementation() const override { return implementation_; }
  std::size_t scratch_bytes() const override;
  void bind(std::byte* scratch, float* flat, float* bias) override;
  void run() override;

 private:
  OnednnDirection(const Context& context, dnnl::primitive primitive, std::string implementation,
                  const dnnl::memory::desc& scratchpad, const dnnl::memory::desc& weights,
                  const ConvolutionSizes& sizes, Role role, core::DataType kernel_type,
                  const FeatureMap& source, const FeatureMap& destination);
  void prepare_weights();

  const Context* context_;
  dnnl::primitive primitive_;
  dnnl::reorder reorder_;
  std::string implementation_;
  ConvolutionSizes sizes_;
  Role role_;
  core::DataType kernel_type_;
  const FeatureMap& source_map_;
  const FeatureMap& destination_map_;
  dnnl::memory weights_, flat_, scratchpad_, source_memory_, destination_memory_, bias_memory_;
  std::vector<dnnl_exec_arg_t> arguments_, reorder_arguments_;
  StagedMap source_, destination_;
  std::span<const float> master_;  ///< what is rounded to bfloat16 before a float32 kernel uses it
  std::span<float> rounded_;
};

}  // namespace lockstep::backend::cpu
