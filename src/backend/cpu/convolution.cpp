// Convolutions: by Winograd's algorithm (winograd.hpp) where it has a form and wins, by oneDNN's
// direct kernels elsewhere, chosen for each convolution and direction. The model keeps weights as
// plain float32 KCRS; each direction brings them, once per step, into the layout its kernel likes,
// in scratch memory that is still in the cache when the kernel reads it.
//
// Where the processor has no direct kernel for the plan's element type (bfloat16 without AVX-512),
// a float32 kernel works on converted copies: products of bfloat16 values are exact in float32, so
// the meaning is that of a bfloat16 kernel with float32 sums.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <variant>

#include "convolution_direction.hpp"
#include "lockstep/core/error.hpp"
#include "onednn.hpp"
#include "onednn_convolution.hpp"
#include "operations.hpp"
#include "winograd.hpp"

namespace lockstep::backend::cpu {

using core::DataType;
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
      if (*direction) bytes = std::max(bytes, (*direction)->scratch_bytes());
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
    forward_->bind(binding.scratch, values + weight.offset, bias_in(values));
    if (backward_data_) backward_data_->bind(binding.scratch, values + weight.offset, nullptr);
    if (backward_weights_)
      backward_weights_->bind(binding.scratch, gradients + weight.offset, bias_in(gradients));
  }

  void forward() override { forward_->run(); }

  void backward() override {
    if (backward_data_) backward_data_->run();
    backward_weights_->run();
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

  /// Winograd's form of a direction between these maps is wanted and exists.
  bool takes_winograd(const FeatureMap& source, const FeatureMap& destination) const {
    if (!winograd::fits(sizes_, source, destination)) return false;
    // Transforms cost about as much as they save where the tiles overhang tiny maps.
    constexpr double least_saving = 2;
    switch (context_.options.convolution_algorithm) {
      case ConvolutionAlgorithm::direct: return false;
      case ConvolutionAlgorithm::winograd: return true;
      case ConvolutionAlgorithm::automatic:
        return winograd::saving(sizes_) >= least_saving &&
               (ports().output->type == DataType::float32 ||
                !describe_forward(context_.engine, sizes_, maps(ports().output->type)));
    }
    return false;
  }

  /// Makes a direction of oneDNN's, with kernels of the plan's element type, or float32 ones where
  /// that has none. `describe(maps, hint)` asks for the kernel, `weights(description)` for the
  /// layout of its weights.
  template <class Describe, class Weights>
  std::unique_ptr<ConvolutionDirection> make_direct(const char* direction,
                                                    OnednnDirection::Role role,
                                                    const FeatureMap& source,
                                                    const FeatureMap& destination,
                                                    Describe&& describe, Weights&& weights) const {
    for (const DataType type : {ports().output->type, DataType::float32}) {
      const ForwardDescription hint = describe_forward(context_.engine, sizes_, maps(type));
      if (!hint) continue;
      const auto description = describe(maps(type), hint);
      if (!description) continue;
      return std::make_unique<OnednnDirection>(context_, description, weights(description), sizes_,
                                               role, type, source, destination);
    }
    core::fail(core::ExitStatus::usage,
               fmt::format("oneDNN has no kernel for {} {}; use another model or precision",
                           direction, node_.name));
  }

  void make_forward() {
    const FeatureMap& source = *ports().inputs[0];
    const FeatureMap& destination = *ports().output;
    if (takes_winograd(source, destination)) {
      forward_ = winograd::make_forward(context_.threads, source, destination);
      return;
    }
    forward_ = make_direct(
        "forward of",
        {.source = DNNL_ARG_SRC,
         .weights = DNNL_ARG_WEIGHTS,
         .destination = DNNL_ARG_DST,
         .bias = DNNL_ARG_BIAS,
         .use = WeightUse::read,
         .writes = OnednnDirection::Writes::destination},
        source, destination,
        [&](const ConvolutionMaps&, const ForwardDescription& hint) { return hint; },
        [](const ForwardDescription& found) { return found.weights_desc(); });
  }

  void make_backward_data() {
    const FeatureMap& source = *ports().input_gradients[0];
    const FeatureMap& destination = *ports().output_gradients[0];
    if (takes_winograd(source, destination)) {
      backward_data_ = winograd::make_backward_data(context_.threads, source, destination);
      return;
    }
    backward_data_ = make_direct(
        "backward data of",
        {.source = DNNL_ARG_DIFF_SRC,
         .weights = DNNL_ARG_WEIGHTS,
         .destination = DNNL_ARG_DIFF_DST,
         .bias = 0,
         .use = WeightUse::read,
         .writes = OnednnDirection::Writes::source},
        source, destination,
        [&](const ConvolutionMaps& m, const ForwardDescription& hint) {
          return describe_backward_data(context_.engine, sizes_, m, hint);
        },
        [](const BackwardDataDescription& found) { return found.weights_desc(); });
  }

  void make_backward_weights() {
    const FeatureMap& source = *ports().inputs[0];
    const FeatureMap& destination = *ports().output_gradients[0];
    if (takes_winograd(source, destination)) {
      backward_weights_ = winograd::make_backward_weights(context_.threads, source, destination);
      return;
    }
    backward_weights_ = make_direct(
        "backward weights of",
        {.source = DNNL_ARG_SRC,
         .weights = DNNL_ARG_DIFF_WEIGHTS,
         .destination = DNNL_ARG_DIFF_DST,
         .bias = DNNL_ARG_DIFF_BIAS,
         .use = WeightUse::written,
         .writes = OnednnDirection::Writes::neither},
        source, destination,
        [&](const ConvolutionMaps& m, const ForwardDescription& hint) {
          return describe_backward_weights(context_.engine, sizes_, m, hint);
        },
        [](const BackwardWeightsDescription& found) { return found.diff_weights_desc(); });
  }

  const Context& context_;
  const graph::Node& node_;
  graph::NodeId id_;
  ConvolutionSizes sizes_;
  std::unique_ptr<ConvolutionDirection> forward_, backward_data_, backward_weights_;
};

/// The forward kernel that oneDNN would choose with all layouts free, in the plan's type or else
/// float32.
ForwardDescription free_choice(const Context& context, const ConvolutionSizes& sizes,
                               DataType wanted, DataType& type) {
  for (const DataType candidate : {wanted, DataType::float32}) {
    type = candidate;
    const ConvolutionMaps maps{any_layout(source_dims(sizes), type),
                               any_layout(destination_dims(sizes), type)};
    if (auto found = describe_forward(context.engine, sizes, maps)) return found;
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
