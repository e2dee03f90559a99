// SPDX-License-Identifier: BSD-3-Clause
#include "onednn_convolution.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/data_type.hpp"

namespace lockstep::backend::cpu {

using core::BFloat16;
using core::DataType;
using dnnl::memory;

// If the processor has no kernel for the element type of a map (bfloat16 without AVX-512), a
// float32 kernel works on converted copies. Products of bfloat16 values are exact in float32, so
// the result is equivalent to that of a bfloat16 kernel with float32 accumulation.

namespace {

std::size_t weight_elements(const ConvolutionSizes& s) {
  return static_cast<std::size_t>(s.out_channels * s.in_channels * s.kernel * s.kernel);
}

template <class From, class To>
void convert_parallel(const From* from, To* to, std::size_t elements, int threads) {
  const std::size_t part = (elements / static_cast<std::size_t>(threads) + 64) / 64 * 64;
#pragma omp parallel for num_threads(threads)
  for (std::size_t at = 0; at < elements; at += part) {
    const std::size_t count = std::min(part, elements - at);
    core::convert(std::span<const From>(from + at, count), std::span<To>(to + at, count));
  }
}

memory::desc with_type(FeatureMap map, DataType type) {
  map.type = type;
  return describe(map);
}

/// A bfloat16 map for a float32 kernel: the map and its float32 copy. If map and kernel have the
/// same type, there is no copy, and `load` and `store` do nothing.
class StagedMap {
 public:
  StagedMap() = default;
  StagedMap(const FeatureMap& map, core::DataType kernel_type, std::byte* copy);

  static std::size_t copy_bytes(const FeatureMap& map, core::DataType kernel_type);

  FeatureMap kernel_view() const { return view_; }
  void load(int threads) const;   ///< converts the map to the copy
  void store(int threads) const;  ///< converts the copy to the map

 private:
  FeatureMap map_, view_;
};

/// How a direction uses its weights: it reads them (after a reorder from the plain layout of the
/// model), or it writes their gradient (before a reorder to that layout).
enum class WeightUse { read, written };

/// Direction with oneDNN's direct kernels: its primitive, the reorder of its weights, and their
/// memory.
class OnednnDirection : public ConvolutionDirection {
 public:
  enum class Writes { source, destination, neither };  ///< which of the maps is written
  /// Properties that differ between directions. The integers are argument indices of oneDNN; `bias`
  /// is that of the bias or of its gradient.
  struct Role {
    int source, weights, destination, bias;
    WeightUse use;
    Writes writes;
  };

  /// The maps must outlive the direction. `kernel_type`: element type of the primitive.
  template <class Description>
  OnednnDirection(const Context& context, const Description& description,
                  const dnnl::memory::desc& weights, const ConvolutionSizes& sizes, Role role,
                  core::DataType kernel_type, const FeatureMap& source,
                  const FeatureMap& destination)
      : OnednnDirection(context, dnnl::primitive(description), description.impl_info_str(),
                        description.scratchpad_desc(), weights, sizes, role, kernel_type, source,
                        destination) {}

  const std::string& implementation() const override { return implementation_; }
  std::size_t workspace_bytes() const override;
  void bind(std::byte* workspace, float* flat, float* bias) override;
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
  std::span<const float> master_;  ///< float32 weights; copied to `rounded_` as bfloat16 values
  std::span<float> rounded_;
};

StagedMap::StagedMap(const FeatureMap& map, DataType kernel_type, std::byte* copy)
    : map_(map), view_(map) {
  if (map.type == kernel_type) return;
  view_.type = kernel_type;
  view_.data = copy;
}

std::size_t StagedMap::copy_bytes(const FeatureMap& map, DataType kernel_type) {
  return map.type == kernel_type
             ? 0
             : ArenaAllocator::aligned(map.elements() * core::size_of(kernel_type));
}

void StagedMap::load(int threads) const {
  if (map_.type == view_.type) return;
  convert_parallel(map_.as<const BFloat16>(), view_.as<float>(), map_.elements(), threads);
}

void StagedMap::store(int threads) const {
  if (map_.type == view_.type) return;
  convert_parallel(view_.as<const float>(), map_.as<BFloat16>(), map_.elements(), threads);
}

OnednnDirection::OnednnDirection(const Context& context, dnnl::primitive primitive,
                                 std::string implementation, const memory::desc& scratchpad,
                                 const memory::desc& weights, const ConvolutionSizes& sizes,
                                 Role role, DataType kernel_type, const FeatureMap& source,
                                 const FeatureMap& destination)
    : context_(&context),
      primitive_(std::move(primitive)),
      implementation_(std::move(implementation)),
      sizes_(sizes),
      role_(role),
      kernel_type_(kernel_type),
      source_map_(source),
      destination_map_(destination),
      weights_(weights, context.engine, nullptr),
      flat_({weight_dims(sizes), memory::data_type::f32, memory::format_tag::oihw}, context.engine,
            nullptr),
      scratchpad_(scratchpad, context.engine, nullptr) {
  const memory& from = role.use == WeightUse::read ? flat_ : weights_;
  const memory& to = role.use == WeightUse::read ? weights_ : flat_;
  reorder_ = dnnl::reorder(from, to);
  reorder_arguments_ = {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}};
}

std::size_t OnednnDirection::workspace_bytes() const {
  std::size_t bytes = ArenaAllocator::aligned(weights_.get_desc().get_size()) +
                      ArenaAllocator::aligned(scratchpad_.get_desc().get_size());
  bytes += StagedMap::copy_bytes(source_map_, kernel_type_) +
           StagedMap::copy_bytes(destination_map_, kernel_type_);
  if (source_map_.type != kernel_type_)
    bytes += ArenaAllocator::aligned(weight_elements(sizes_) * sizeof(float));
  return bytes;
}

void OnednnDirection::bind(std::byte* workspace, float* flat, float* bias) {
  ArenaAllocator arena(workspace);
  flat_.set_data_handle(flat);
  weights_.set_data_handle(arena.take(weights_.get_desc().get_size()));
  scratchpad_.set_data_handle(arena.take(scratchpad_.get_desc().get_size()));
  source_ = StagedMap(source_map_, kernel_type_,
                      arena.take(StagedMap::copy_bytes(source_map_, kernel_type_)));
  destination_ = StagedMap(destination_map_, kernel_type_,
                           arena.take(StagedMap::copy_bytes(destination_map_, kernel_type_)));
  if (source_map_.type != kernel_type_ && role_.use == WeightUse::read) {
    const std::size_t elements = weight_elements(sizes_);
    master_ = {flat, elements};
    rounded_ = {arena.take_floats(elements), elements};
    flat_.set_data_handle(rounded_.data());
  }
  const auto map_memory = [this](const StagedMap& map) {
    return memory(describe(map.kernel_view()), context_->engine, map.kernel_view().data);
  };
  source_memory_ = map_memory(source_);
  destination_memory_ = map_memory(destination_);
  arguments_ = {{role_.source, source_memory_.get()},
                {role_.weights, weights_.get()},
                {role_.destination, destination_memory_.get()},
                {DNNL_ARG_SCRATCHPAD, scratchpad_.get()}};
  if (bias != nullptr) {
    const memory::desc vector({sizes_.out_channels}, memory::data_type::f32, memory::format_tag::x);
    bias_memory_ = memory(vector, context_->engine, bias);
    arguments_.push_back({role_.bias, bias_memory_.get()});
  }
}

void OnednnDirection::prepare_weights() {
  for (std::size_t i = 0; i < rounded_.size(); ++i) {
    rounded_[i] = core::to_float(core::to_bfloat16(master_[i]));
  }
  execute(reorder_, context_->stream, reorder_arguments_);
}

void OnednnDirection::run() {
  const Writes writes = role_.writes;
  if (role_.use == WeightUse::read) prepare_weights();
  if (writes != Writes::source) source_.load(context_->threads);
  if (writes != Writes::destination) destination_.load(context_->threads);
  execute(primitive_, context_->stream, arguments_);
  if (writes == Writes::source) source_.store(context_->threads);
  if (writes == Writes::destination) destination_.store(context_->threads);
  if (role_.use == WeightUse::written) execute(reorder_, context_->stream, reorder_arguments_);
}

template <class Description, class Weights>
std::unique_ptr<ConvolutionDirection> make(const Context& context, const Description& description,
                                           Weights&& weights, const ConvolutionSizes& sizes,
                                           OnednnDirection::Role role, DataType kernel_type,
                                           const FeatureMap& source,
                                           const FeatureMap& destination) {
  if (!description) return nullptr;
  return std::make_unique<OnednnDirection>(context, description, weights(description), sizes, role,
                                           kernel_type, source, destination);
}

}  // namespace

std::unique_ptr<ConvolutionDirection> make_onednn_direction(const Context& context,
                                                            Direction direction,
                                                            const ConvolutionSizes& sizes,
                                                            const FeatureMap& source,
                                                            const FeatureMap& destination) {
  using Writes = OnednnDirection::Writes;
  const auto weights = [](const auto& description) { return description.weights_desc(); };
  for (const DataType type : {source.type, DataType::float32}) {
    const ConvolutionMaps maps{with_type(source, type), with_type(destination, type)};
    const ForwardDescription forward = describe_forward(context.engine, sizes, maps);
    if (!forward) continue;
    std::unique_ptr<ConvolutionDirection> made;
    switch (direction) {
      case Direction::forward:
        made = make(context, forward, weights, sizes,
                    {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS, WeightUse::read,
                     Writes::destination},
                    type, source, destination);
        break;
      case Direction::backward_data:
        made = make(context, describe_backward_data(context.engine, sizes, maps, forward), weights,
                    sizes,
                    {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, 0, WeightUse::read,
                     Writes::source},
                    type, source, destination);
        break;
      case Direction::backward_weights:
        made = make(
            context, describe_backward_weights(context.engine, sizes, maps, forward),
            [](const auto& description) { return description.diff_weights_desc(); }, sizes,
            {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_BIAS,
             WeightUse::written, Writes::neither},
            type, source, destination);
        break;
    }
    if (made != nullptr) return made;
  }
  return nullptr;
}

}  // namespace lockstep::backend::cpu
