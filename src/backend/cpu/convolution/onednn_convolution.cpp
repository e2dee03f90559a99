// SPDX-License-Identifier: BSD-3-Clause
#include "onednn_convolution.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "../context.hpp"
#include "../onednn.hpp"
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

memory::desc description_as(FeatureMap map, DataType type) {
  map.type = type;
  return describe(map);
}

/// A map as a kernel sees it: if the types of map and kernel differ, a float32 copy of the bfloat16
/// map; otherwise the map itself, and `load` and `store` do nothing.
class StagedMap {
 public:
  StagedMap(const dnnl::engine& engine, const FeatureMap& map, DataType kernel_type)
      : map_(map), view_(map), memory_(description_as(map, kernel_type), engine, nullptr) {
    view_.type = kernel_type;
  }

  bool is_copy() const { return map_.type != view_.type; }
  std::size_t copy_bytes() const {
    return is_copy() ? ArenaAllocator::aligned(map_.elements() * core::size_of(view_.type)) : 0;
  }
  void bind(ArenaAllocator& arena) {
    view_.data = is_copy() ? arena.take(copy_bytes()) : map_.data;
    memory_.set_data_handle(view_.data);
  }

  const memory& kernel_memory() const { return memory_; }
  /// Converts the map to the copy.
  void load(int threads) const {
    if (!is_copy()) return;
    convert_parallel(map_.as<const BFloat16>(), view_.as<float>(), map_.elements(), threads);
  }
  /// Converts the copy to the map.
  void store(int threads) const {
    if (!is_copy()) return;
    convert_parallel(view_.as<const float>(), map_.as<BFloat16>(), map_.elements(), threads);
  }

 private:
  const FeatureMap& map_;
  FeatureMap view_;
  memory memory_;
};

/// Direction with oneDNN's direct kernels: its primitive, the reorder of its weights, and their
/// memory.
class OnednnDirection : public ConvolutionDirection {
 public:
  /// `kernel_type`: element type of the primitive.
  OnednnDirection(const Context& context, const dnnl::primitive_desc& description,
                  const ConvolutionProblem& problem, DataType kernel_type)
      : ConvolutionDirection(description.impl_info_str(), 1),
        context_(&context),
        primitive_(description),
        problem_(problem),
        source_(context.engine, problem.source, kernel_type),
        destination_(context.engine, problem.destination, kernel_type),
        weights_(reads_weights() ? description.weights_desc(0) : description.diff_weights_desc(0),
                 context.engine, nullptr),
        flat_({weight_dims(problem.sizes), memory::data_type::f32, memory::format_tag::oihw},
              context.engine, nullptr),
        scratchpad_(description.scratchpad_desc(), context.engine, nullptr) {
    const memory& from = reads_weights() ? flat_ : weights_;
    const memory& to = reads_weights() ? weights_ : flat_;
    reorder_ = dnnl::reorder(from, to);
    reorder_arguments_ = {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}};
  }

  std::size_t workspace_bytes() const override {
    std::size_t bytes = ArenaAllocator::aligned(weights_.get_desc().get_size()) +
                        ArenaAllocator::aligned(scratchpad_.get_desc().get_size());
    bytes += source_.copy_bytes() + destination_.copy_bytes();
    if (source_.is_copy())
      bytes += ArenaAllocator::aligned(weight_elements(problem_.sizes) * sizeof(float));
    return bytes;
  }

  void bind(std::byte* workspace, float* flat, float* bias) override {
    ArenaAllocator arena(workspace);
    flat_.set_data_handle(flat);
    weights_.set_data_handle(arena.take(weights_.get_desc().get_size()));
    scratchpad_.set_data_handle(arena.take(scratchpad_.get_desc().get_size()));
    source_.bind(arena);
    destination_.bind(arena);
    if (source_.is_copy() && reads_weights()) {
      const std::size_t elements = weight_elements(problem_.sizes);
      master_ = {flat, elements};
      rounded_ = {arena.take<float>(elements * sizeof(float)), elements};
      flat_.set_data_handle(rounded_.data());
    }
    const bool is_forward = problem_.direction == Direction::forward;
    arguments_ = {
        {problem_.direction == Direction::backward_data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC,
         source_.kernel_memory().get()},
        {reads_weights() ? DNNL_ARG_WEIGHTS : DNNL_ARG_DIFF_WEIGHTS, weights_.get()},
        {is_forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, destination_.kernel_memory().get()},
        {DNNL_ARG_SCRATCHPAD, scratchpad_.get()}};
    if (bias != nullptr) {
      const memory::desc vector({problem_.sizes.out_channels}, memory::data_type::f32,
                                memory::format_tag::x);
      bias_memory_ = memory(vector, context_->engine, bias);
      arguments_.push_back({is_forward ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS, bias_memory_.get()});
    }
  }

  void run() override {
    if (reads_weights()) prepare_weights();
    if (problem_.direction != Direction::backward_data) source_.load(context_->threads);
    if (problem_.direction != Direction::forward) destination_.load(context_->threads);
    execute(primitive_, context_->stream, arguments_);
    if (problem_.direction == Direction::backward_data) source_.store(context_->threads);
    if (problem_.direction == Direction::forward) destination_.store(context_->threads);
    if (!reads_weights()) execute(reorder_, context_->stream, reorder_arguments_);
  }

 private:
  /// Returns true if the direction reads its weights, after a reorder from the plain layout of the
  /// model; false if it writes their gradient, before a reorder to that layout.
  bool reads_weights() const { return problem_.direction != Direction::backward_weights; }

  void prepare_weights() {
    for (std::size_t i = 0; i < rounded_.size(); ++i)
      rounded_[i] = core::to_float(core::to_bfloat16(master_[i]));
    execute(reorder_, context_->stream, reorder_arguments_);
  }

  const Context* context_;
  dnnl::primitive primitive_;
  dnnl::reorder reorder_;
  ConvolutionProblem problem_;
  StagedMap source_, destination_;
  memory weights_, flat_, scratchpad_, bias_memory_;
  std::vector<dnnl_exec_arg_t> arguments_, reorder_arguments_;
  std::span<const float> master_;  // float32 weights; copied to `rounded_` as bfloat16 values
  std::span<float> rounded_;
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_onednn_direction(const Context& context,
                                                            const ConvolutionProblem& problem) {
  for (const DataType type : {problem.source.type, DataType::float32}) {
    if (const auto description = describe(context.engine, problem.direction, problem.sizes,
                                          description_as(problem.source, type),
                                          description_as(problem.destination, type)))
      return std::make_unique<OnednnDirection>(context, description, problem, type);
  }
  return nullptr;
}

}  // namespace lockstep::backend::cpu
