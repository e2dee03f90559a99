#include "onednn_convolution.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::backend::cpu {

using core::BFloat16;
using core::DataType;
using dnnl::memory;

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

}  // namespace

StagedMap::StagedMap(const FeatureMap& map, DataType kernel_type, std::byte* copy)
    : map_(map), view_(map) {
  if (map.type == kernel_type) return;
  view_.type = kernel_type;
  view_.data = copy;
}

std::size_t StagedMap::copy_bytes(const FeatureMap& map, DataType kernel_type) {
  return map.type == kernel_type ? 0 : Carver::aligned(map.elements() * core::size_of(kernel_type));
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

std::size_t OnednnDirection::scratch_bytes() const {
  std::size_t bytes = Carver::aligned(weights_.get_desc().get_size()) +
                      Carver::aligned(scratchpad_.get_desc().get_size());
  bytes += StagedMap::copy_bytes(source_map_, kernel_type_) +
           StagedMap::copy_bytes(destination_map_, kernel_type_);
  if (source_map_.type != kernel_type_)
    bytes += Carver::aligned(weight_elements(sizes_) * sizeof(float));
  return bytes;
}

void OnednnDirection::bind(std::byte* scratch, float* flat, float* bias) {
  Carver carver(scratch);
  flat_.set_data_handle(flat);
  weights_.set_data_handle(carver.take(weights_.get_desc().get_size()));
  scratchpad_.set_data_handle(carver.take(scratchpad_.get_desc().get_size()));
  source_ = StagedMap(source_map_, kernel_type_,
                      carver.take(StagedMap::copy_bytes(source_map_, kernel_type_)));
  destination_ = StagedMap(destination_map_, kernel_type_,
                           carver.take(StagedMap::copy_bytes(destination_map_, kernel_type_)));
  if (source_map_.type != kernel_type_ && role_.use == WeightUse::read) {
    const std::size_t elements = weight_elements(sizes_);
    master_ = {flat, elements};
    rounded_ = {carver.take_floats(elements), elements};
    flat_.set_data_handle(rounded_.data());
  }
  const auto map_memory = [this](const StagedMap& map) {
    return memory(map.kernel_view().description(), context_->engine, map.kernel_view().data);
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

}  // namespace lockstep::backend::cpu
