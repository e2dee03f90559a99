// Convolutions by oneDNN. The model keeps weights as plain float32 KCRS; each direction reorders
// them, once per step, into the layout its kernel likes, in scratch memory that is still in the
// cache when the kernel reads it.
//
// Where the processor has no kernel for the plan's element type (bfloat16 without AVX-512), a
// float32 kernel works on converted copies: products of bfloat16 values are exact in float32, so
// the meaning is that of a bfloat16 kernel with float32 sums.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <variant>

#include "convolution_direction.hpp"
#include "lockstep/core/error.hpp"
#include "onednn.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

using core::DataType;
using dnnl::algorithm;
using dnnl::memory;

namespace {

ConvolutionSizes sizes_of(const graph::Graph& graph, graph::NodeId id, std::int64_t images) {
  const graph::Node& node = graph.node(id);
  const auto& operation = std::get<graph::Convolution>(node.operation);
  const core::ImageShape in = graph.node(node.inputs[0]).output;
  const core::ImageShape out = node.output;
  return {images,           in.channels,       in.height,         in.width,
          out.channels,     out.height,        out.width,         operation.kernel,
          operation.stride, operation.padding, operation.has_bias};
}

/// oneDNN's Winograd kernels (2.x, AVX-512, float32) are for 3x3 convolutions of stride 1; with the
/// few channels of the images they lose to direct ones.
bool winograd_wins(const ConvolutionSizes& sizes, DataType type) {
  constexpr std::int64_t few_channels = 16;
  return sizes.kernel == 3 && sizes.stride == 1 && sizes.in_channels > few_channels &&
         sizes.out_channels > few_channels && type == DataType::float32;
}

/// Calls `describe(algorithm)` for Winograd, where wanted and fitting, then direct; the first
/// description that is not empty.
template <class Describe>
auto first_description(const ConvolutionSizes& sizes, ConvolutionAlgorithm wanted, DataType type,
                       Describe&& describe) {
  if (wanted != ConvolutionAlgorithm::direct && winograd_wins(sizes, type)) {
    if (auto found = describe(algorithm::convolution_winograd)) return found;
  }
  return describe(algorithm::convolution_direct);
}

memory::desc any_layout(const memory::dims& dims, DataType type) {
  return {dims, to_onednn(type), memory::format_tag::any};
}

memory::desc with_type(FeatureMap map, DataType type) {
  map.type = type;
  return map.description();
}

class Convolution : public Operation {
 public:
  Convolution(const Context& context, const Step& step, Ports given)
      : Operation(std::move(given)),
        context_(context),
        node_(context.graph->node(step.node)),
        id_(step.node),
        sizes_(sizes_of(*context.graph, step.node, ports().output->images)) {
    make_forward();
    if (context.options.mode == Mode::inference) return;
    if (ports().input_gradients[0] != nullptr) make_backward_data();
    make_backward_weights();
  }

  BackwardNeeds backward_needs() const override { return {.inputs = true, .output = false}; }

  std::size_t scratch_bytes() const override {
    std::size_t bytes = 0;
    for (const auto* direction : {&forward_, &backward_data_, &backward_weights_}) {
      if (*direction)
        bytes = std::max(bytes, (*direction)->scratch_bytes(*ports().inputs[0], *ports().output));
    }
    return bytes;
  }

  void bind(const Binding& binding) override {
    const auto& parameters = context_.graph->parameters();
    const graph::Parameter& weight = parameters[node_.parameters[0]];
    float* const values = binding.state->parameters.as<float>().data();
    float* const gradients = binding.state->gradients.as<float>().data();
    const auto bias_in = [&](float* flat) {
      return sizes_.has_bias ? flat + parameters[node_.parameters[1]].offset : nullptr;
    };
    const FeatureMap& source = *ports().inputs[0];
    forward_->bind(binding.scratch, values + weight.offset, bias_in(values), DNNL_ARG_BIAS, source,
                   *ports().output);
    if (backward_data_) {
      backward_data_->bind(binding.scratch, values + weight.offset, nullptr, 0,
                           *ports().input_gradients[0], *ports().output_gradients[0]);
    }
    if (backward_weights_) {
      backward_weights_->bind(binding.scratch, gradients + weight.offset, bias_in(gradients),
                              DNNL_ARG_DIFF_BIAS, source, *ports().output_gradients[0]);
    }
  }

  void forward() override { forward_->run(ConvolutionDirection::Writes::destination); }

  void backward() override {
    if (backward_data_) backward_data_->run(ConvolutionDirection::Writes::source);
    backward_weights_->run(ConvolutionDirection::Writes::neither);
  }

  std::vector<OperationChoice> choices() const override {
    std::vector<OperationChoice> choices{{id_, "forward", forward_->implementation()}};
    if (backward_data_) choices.push_back({id_, "backward data", backward_data_->implementation()});
    if (backward_weights_)
      choices.push_back({id_, "backward weights", backward_weights_->implementation()});
    return choices;
  }

 private:
  ConvolutionMaps maps(DataType type) const {
    return {with_type(*ports().inputs[0], type), with_type(*ports().output, type)};
  }

  ForwardDescription forward_description(DataType type) const {
    return first_description(
        sizes_, context_.options.convolution_algorithm, type,
        [&](algorithm a) { return describe_forward(context_.engine, a, sizes_, maps(type)); });
  }

  /// Calls make(type, description) with the plan's element type, or with float32 where that has no
  /// kernel.
  template <class Describe, class Make>
  void with_kernel_type(const char* direction, Describe&& describe, Make&& make) const {
    for (const DataType type : {ports().output->type, DataType::float32}) {
      const ForwardDescription hint = forward_description(type);
      if (!hint) continue;
      const auto description =
          first_description(sizes_, context_.options.convolution_algorithm, type,
                            [&](algorithm a) { return describe(a, maps(type), hint); });
      if (!description) continue;
      make(type, description);
      return;
    }
    core::fail(core::ExitStatus::usage,
               fmt::format("oneDNN has no kernel for {} {}; use another model or precision",
                           direction, node_.name));
  }

  void make_forward() {
    with_kernel_type(
        "forward of",
        [&](algorithm a, const ConvolutionMaps& m, const ForwardDescription&) {
          return describe_forward(context_.engine, a, sizes_, m);
        },
        [&](DataType type, const ForwardDescription& description) {
          forward_.emplace(
              context_, description, description.weights_desc(), sizes_,
              ConvolutionDirection::Arguments{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
              WeightUse::read, type);
        });
  }

  void make_backward_data() {
    with_kernel_type(
        "backward data of",
        [&](algorithm a, const ConvolutionMaps& m, const ForwardDescription& hint) {
          return describe_backward_data(context_.engine, a, sizes_, m, hint);
        },
        [&](DataType type, const BackwardDataDescription& description) {
          backward_data_.emplace(context_, description, description.weights_desc(), sizes_,
                                 ConvolutionDirection::Arguments{
                                     DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                 WeightUse::read, type);
        });
  }

  void make_backward_weights() {
    with_kernel_type(
        "backward weights of",
        [&](algorithm a, const ConvolutionMaps& m, const ForwardDescription& hint) {
          return describe_backward_weights(context_.engine, a, sizes_, m, hint);
        },
        [&](DataType type, const BackwardWeightsDescription& description) {
          backward_weights_.emplace(context_, description, description.diff_weights_desc(), sizes_,
                                    ConvolutionDirection::Arguments{
                                        DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
                                    WeightUse::written, type);
        });
  }

  const Context& context_;
  const graph::Node& node_;
  graph::NodeId id_;
  ConvolutionSizes sizes_;
  std::optional<ConvolutionDirection> forward_, backward_data_, backward_weights_;
};

/// The forward kernel that oneDNN would choose with all layouts free, in the plan's type or else
/// float32.
ForwardDescription free_choice(const Context& context, const ConvolutionSizes& sizes,
                               DataType wanted, DataType& type) {
  for (const DataType candidate : {wanted, DataType::float32}) {
    type = candidate;
    const ConvolutionMaps maps{any_layout(source_dims(sizes), type),
                               any_layout(destination_dims(sizes), type)};
    auto found = first_description(
        sizes, context.options.convolution_algorithm, type,
        [&](algorithm a) { return describe_forward(context.engine, a, sizes, maps); });
    if (found) return found;
  }
  return {};
}

}  // namespace

std::unique_ptr<Operation> make_convolution(const Context& context, const Step& step, Ports ports) {
  return std::make_unique<Convolution>(context, step, std::move(ports));
}

PreferredLayouts preferred_layouts(const Context& context) {
  const graph::Graph& graph = *context.graph;
  const DataType wanted =
      context.options.precision == core::Precision::bf16 ? DataType::bfloat16 : DataType::float32;
  PreferredLayouts preferred;
  std::map<MapLayout, double> flops;  // of the convolutions that would write each layout
  for (graph::NodeId id = 0; id < static_cast<graph::NodeId>(graph.nodes().size()); ++id) {
    const graph::Node& node = graph.node(id);
    if (!std::holds_alternative<graph::Convolution>(node.operation)) continue;
    const ConvolutionSizes sizes = sizes_of(graph, id, context.options.batch);
    DataType type = wanted;
    const ForwardDescription choice = free_choice(context, sizes, wanted, type);
    if (!choice) continue;  // the operation itself will refuse, with the reason
    if (const auto layout = layout_of(choice.dst_desc(), sizes.images, node.output, type)) {
      flops[*layout] += graph.cost(id).forward_flops;
    }
    const graph::Node& from = graph.node(node.inputs[0]);
    if (std::holds_alternative<graph::Input>(from.operation)) {
      preferred.images =
          layout_of(choice.src_desc(), sizes.images, from.output, type).value_or(MapLayout::planar);
    }
  }
  const auto most =
      std::ranges::max_element(flops, {}, [](const auto& entry) { return entry.second; });
  if (most != flops.end()) preferred.activations = most->first;
  return preferred;
}

}  // namespace lockstep::backend::cpu
